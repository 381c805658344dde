"""Faults of a cluster: a wait counts what has struck at all brokers together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from odradek.cluster import asking
from odradek.control import WaitTimeoutError
from odradek.faults import Fault

SET = {"id": "0:a+1:b", "what": "Produce", "hits": 0}


class Struck:
    """A broker whose fault has been struck so often."""

    def __init__(self, index: int, hits: int) -> None:
        self.index, self.hits = index, hits
        self.control = self

    def get(self, path: str) -> Mapping[str, Any]:
        return {"what": "Produce", "hits": self.hits, "active": True, "requests": []}


class Control:
    """The control interface of a cluster of such brokers."""

    def __init__(self, brokers: list[Struck]) -> None:
        self._brokers: Any = brokers

    def post(self, path: str, **values: Any) -> Any:
        return asking.spread(self._brokers, "POST", path, values)


def test_fault_wait_returns_once_the_brokers_were_struck_so_often_together(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = [Struck(0, 1), Struck(1, 0)]

    def sleep(_seconds: float) -> None:
        brokers[1].hits += 1

    monkeypatch.setattr("odradek.cluster.asking.time.sleep", sleep)
    control: Any = Control(brokers)
    Fault(control, SET).wait(3)
    assert [broker.hits for broker in brokers] == [1, 2]


def test_fault_wait_that_runs_out_of_time_says_how_many_hits_there_were() -> None:
    control: Any = Control([Struck(0, 1), Struck(1, 1)])
    with pytest.raises(WaitTimeoutError, match="for 3 hits of the fault Produce, and there were 2"):
        Fault(control, SET).wait(3, timeout=-1)
