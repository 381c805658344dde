"""Members of a share group that name very many topics, and others at each heartbeat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.group.consumer.topics_port import TopicsPort
from coordinator.group.share.group import ShareGroup, ShareMember


class Topics:
    """Has `there`, and counts what is asked for."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.newest = 1
        self.asked: list[str] = []

    def by_name(self, name: str) -> Any:
        self.asked.append(name)
        return SimpleNamespace(name=name) if name in self.there else None


def test_only_the_names_of_the_member_that_changes_them_are_looked_up() -> None:
    topics, group = Topics("a", "b"), ShareGroup("g")
    port = cast(TopicsPort, topics)
    one, other = ShareMember("1", topics=("a", "x")), ShareMember("2", topics=("b", "y"))
    assert group.existing([one, other], port) == {"1": {"a"}, "2": {"b"}}
    topics.asked.clear()
    other = other._replace(topics=("a", "z"))
    assert group.existing([one, other], port) == {"1": {"a"}, "2": {"a"}}
    assert topics.asked == ["a", "z"]
    assert group.existing([one], port) == {"1": {"a"}}
    topics.there.add("x")
    topics.newest = 2
    assert group.existing([one, other], port) == {"1": {"a", "x"}, "2": {"a"}}
