"""How many share sessions a broker keeps (`group.share.max.share.sessions`)."""

from __future__ import annotations

import pytest

from broker.share.sessions import ShareSessions
from protocol.errors import ShareSessionLimitReached


def test_no_more_sessions_than_may_be_and_who_has_one_may_begin_again() -> None:
    sessions = ShareSessions(2, lambda: None)
    for member in ("a", "b", "a"):
        sessions.open(("g", member), object())
    with pytest.raises(ShareSessionLimitReached):
        sessions.open(("g", "c"), object())
    assert len(sessions) == 2
    sessions.close(("g", "a"))
    sessions.open(("g", "c"), object())
