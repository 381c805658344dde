"""What a cluster says of a share group: each broker has the deliveries of the partitions that it leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.cluster import asking

ANSWERS: Mapping[int, Mapping[str, Any]] = {
    0: {"group": "g", "share_sessions": ["n", "m"], "partitions": [{"topic": "t", "partition": 2, "in_flight": []}]},
    1: {"group": "g", "share_sessions": ["m"], "partitions": [{"topic": "t", "partition": 1, "in_flight": []}]},
}


class Told:
    """A broker that gives one answer."""

    def __init__(self, index: int, answer: Mapping[str, Any]) -> None:
        self.index = index
        self.control = self
        self._answer = answer

    def send(self, method: str, path: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._answer


def spread(path: str, answers: Mapping[int, Mapping[str, Any]]) -> Any:
    brokers: Any = [Told(index, answer) for index, answer in answers.items()]
    return asking.spread(brokers, "GET", path, {})


def test_deliveries_of_all_brokers_are_told_together() -> None:
    found = spread("/groups/g/deliveries", ANSWERS)
    assert (found["group"], found["share_sessions"]) == ("g", ["m", "n"])
    assert [one["partition"] for one in found["partitions"]] == [1, 2]


def test_records_that_are_released_at_several_brokers_are_counted_together() -> None:
    assert spread("/groups/g/release", {0: {"released": 2}, 1: {"released": 3}}) == {"released": 5}
