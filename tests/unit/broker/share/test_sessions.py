"""How many share sessions a broker keeps (`group.share.max.share.sessions`), and how many partitions they have."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.share import sessions as limits
from broker.share.sessions import ShareSessions
from protocol.errors import ShareSessionLimitReached


def test_group_share_max_share_sessions_bounds_sessions_and_who_has_one_may_begin_again() -> None:
    sessions = ShareSessions(2, lambda: None)
    for member in ("a", "b", "a"):
        sessions.open(("g", member), object())
    with pytest.raises(ShareSessionLimitReached):
        sessions.open(("g", "c"), object())
    assert len(sessions) == 2
    sessions.close(("g", "a"))
    sessions.open(("g", "c"), object())


def test_a_session_and_all_of_them_together_have_a_most_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_IN_A_SESSION", 3)
    monkeypatch.setattr(limits, "MOST_IN_ALL", 4)
    sessions = ShareSessions(2, lambda: None)
    one, other = (sessions.open(("g", member), object()) for member in "ab")
    sessions.change(one, places(0, 1, 2), ())
    with pytest.raises(ShareSessionLimitReached):
        sessions.change(one, places(0, 3), ())
    assert list(one) == list(places(0, 1, 2))
    sessions.change(one, places(0, 1, 2), places(2))
    sessions.change(other, places(3, 4), ())
    with pytest.raises(ShareSessionLimitReached):
        sessions.change(other, places(5), ())
    sessions.close(("g", "a"))
    sessions.change(other, places(5), ())


def places(*indexes: int) -> dict[tuple[UUID, int], str | None]:
    return {(UUID(int=1), index): "t" for index in indexes}
