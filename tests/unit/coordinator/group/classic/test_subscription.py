"""The topics in what a classic member tells of itself."""

from __future__ import annotations

import pytest

from coordinator.group.classic.members import subscribed_topics
from protocol.consumer_protocol import ImpossibleLengthError, SchemaError
from tests.conformance.group_members import subscription


@pytest.mark.parametrize("user_data", [b"", b"x" * 10_000], ids=["small", "too large to be remembered"])
def test_topics_are_read_again_and_again(user_data: bytes) -> None:
    for topics in ({"a", "b"}, {"b"}, {"a", "b"}):
        assert subscribed_topics(subscription(*sorted(topics)) + user_data) == topics


@pytest.mark.parametrize("user_data", [b"", b"x" * 10_000], ids=["small", "too large to be remembered"])
def test_what_cannot_be_is_refused_each_time(user_data: bytes) -> None:
    for _ in range(2):
        with pytest.raises(ImpossibleLengthError, match="topics is null"):
            subscribed_topics(b"\0\0\xff\xff\xff\xff" + user_data)
        with pytest.raises(SchemaError):
            subscribed_topics(b"\0\0\0")


def test_the_user_data_must_be_there_too() -> None:
    named = b"\0\0\0\0\0\1\0\1a"
    assert subscribed_topics(named + b"\0\0\0\2xy") == {"a"}
    assert subscribed_topics(named + b"\xff\xff\xff\xfe") == {"a"}
    with pytest.raises(ImpossibleLengthError, match="user_data needs 2 bytes"):
        subscribed_topics(named + b"\0\0\0\2x")
    with pytest.raises(SchemaError, match="user_data needs 4 bytes"):
        subscribed_topics(named)
