"""Every action in every phase, for a handful of APIs, over sockets: set over HTTP as through Python."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from odradek import Broker
from tests.client.breaking import ASKS, Ask, Asking, make_coordinators, set_fault
from tests.unit.broker.faults.breaking import codes
from tests.waiting import wait_until

PHASES = ("before", "after_append", "after_fsync", "before_reply")
DELAY_S = 0.1

ACTIONS: dict[str, dict[str, Any]] = {
    "error": {"error": "POLICY_VIOLATION"},
    "delay": {"delay": DELAY_S},
    "drop_request": {"drop": "request"},
    "drop_reply": {"drop": "reply"},
    "disconnect": {"disconnect": True},
    "observe": {"observe": True},
}
ENDS = ("error", "drop_request", "disconnect")
"""Actions after which a request that was not handled yet never is."""


def phases_of(ask: Ask, action: str) -> tuple[str, ...]:
    if action == "drop_request":
        return ("before",)
    return PHASES if ask.writes else ("before", "before_reply")


CASES = [
    pytest.param(ask, action, phase, id=f"{ask.api}-{action}-{phase}")
    for ask in ASKS
    for action in ACTIONS
    for phase in phases_of(ask, action)
]
CRASHES = [pytest.param(ask, phase, id=f"{ask.api}-{phase}") for ask in ASKS for phase in phases_of(ask, "then")]


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with Broker() as broker:
        make_coordinators(broker)
        yield broker


@pytest.fixture
def name() -> str:
    return f"x-{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("how", ["python", "http"])
@pytest.mark.parametrize(("ask", "action", "phase"), CASES)
def test_a_fault(broker: Broker, how: str, ask: Ask, action: str, phase: str, name: str) -> None:
    fields = ask.prepare(broker, name)
    given = {"api": ask.api, "client_id": name, "phase": phase, **ACTIONS[action]}
    with set_fault(broker, how, **given) as fault, Asking(broker, name) as connection:
        began = time.monotonic()
        connection.begin(ask.api, ask.version, **fields)
        fault.wait(1, timeout=60)
        if action == "disconnect":
            assert connection.is_closed_by_broker()
        elif action in ("drop_request", "drop_reply"):
            assert connection.is_silent()
        else:
            told = codes(connection.finish(ask.api, ask.version))
            assert ("policy_violation" in told) == (action == "error")
            assert action == "error" or set(told) <= {"none"}
        assert action != "delay" or time.monotonic() - began >= DELAY_S
        (request,) = fault.requests
        assert (request["version"], request["client_id"]) == (ask.version, name)
        assert fault.hits == 1
    if ask.done is not None:
        is_done = ask.done
        if phase == "before" and action in ENDS:
            assert not is_done(broker, name)
        else:
            wait_until(lambda: is_done(broker, name), "the request was not done")


@pytest.mark.parametrize(("ask", "phase"), CRASHES)
def test_a_crash(broker: Broker, ask: Ask, phase: str, name: str) -> None:
    fields = ask.prepare(broker, name)
    how = "http" if ask.api == "produce" else "python"
    set_fault(broker, how, api=ask.api, client_id=name, phase=phase, then="crash")
    with Asking(broker, name) as connection:
        connection.begin(ask.api, ask.version, **fields)
        assert connection.is_closed_by_broker()
    wait_until(lambda: not broker.running, "the broker still runs")
    broker.restart()
    make_coordinators(broker)
    if ask.done is not None:
        is_done = ask.done
        if phase == "before" or not ask.kept:
            assert not is_done(broker, name)
        else:
            wait_until(lambda: is_done(broker, name), "the request was not done")
