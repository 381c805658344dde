"""Every action in every phase, for a handful of APIs: what the client sees, and whether the request was done."""

from __future__ import annotations

from typing import Any

import pytest

from broker.faults.spec import Phase, phases_of
from protocol.api.table import API_BY_NAME
from tests.doubles.clock import settle
from tests.unit.broker.faults.breaking import ASKS, SETTINGS, TOPIC, Ask, Breaking, codes
from tests.unit.broker.rig import Client, Rig

SECOND_MS = 1000
FLUSHED_MS = 5
"""Time in which a flush that a fault asked for is over."""

CASES = [
    pytest.param(ask, phase, id=f"{ask.api}-{phase.value}")
    for ask in ASKS
    for phase in phases_of(API_BY_NAME[ask.api])
    if phase is not Phase.BEFORE_FSYNC
]


class Struck:
    """One request that a fault has struck."""

    def __init__(self, rig: Rig, ask: Ask) -> None:
        self.rig = rig
        self.ask = ask
        self.client: Client
        self.breaking = Breaking(rig)

    async def send(self, **given: Any) -> None:
        fields = await self.ask.prepare(self.rig)
        self.fault = self.breaking.set(api=self.ask.api, **given)
        self.client = self.rig.connect()
        self.client.send(self.ask.api, self.ask.version, **fields)
        await self.rig.clock.run(FLUSHED_MS)

    async def answer(self) -> Any:
        return await self.ask.answered(self.client)

    async def is_done(self) -> bool | None:
        """None if nothing is ever done: the request only reads."""
        self.breaking.faults.clear()
        return None if self.ask.done is None else await self.ask.done(self.rig)

    def expected(self, done: bool) -> bool | None:
        return None if self.ask.done is None else done


@pytest.fixture
async def rig() -> Any:
    async with Rig(config=SETTINGS) as rig:
        await rig.create(TOPIC)
        yield rig


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_error_is_answered_and_before_nothing_is_done(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(error="POLICY_VIOLATION", phase=phase)
    assert "policy_violation" in codes(await struck.answer())
    assert struck.fault.hits == 1
    assert await struck.is_done() == struck.expected(phase is not Phase.BEFORE)


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_delay_holds_the_answer_and_before_also_the_work(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(delay=1.0, phase=phase)
    assert await struck.answer() is None
    if phase is not Phase.BEFORE:
        assert await struck.is_done() == struck.expected(True)
    await rig.clock.run(SECOND_MS - 2 * FLUSHED_MS - 100)
    assert await struck.answer() is None
    await rig.clock.run(200)
    assert set(codes(await struck.answer())) <= {"none"}
    assert await struck.is_done() == struck.expected(True)


@pytest.mark.parametrize("ask", [pytest.param(ask, id=ask.api) for ask in ASKS])
async def test_drop_request_loses_it_and_what_follows_on_its_connection(rig: Rig, ask: Ask) -> None:
    struck = Struck(rig, ask)
    await struck.send(drop="request", count=1)
    assert not await struck.is_done()
    struck.client.send("api_versions", 0)
    await rig.clock.run(60 * SECOND_MS)
    assert struck.client.replies() == []
    assert not await struck.client.closed()
    assert codes(await rig.connect().ask("api_versions", 0)) == ["none"]


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_drop_reply_loses_only_what_the_client_would_learn(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(drop="reply", phase=phase)
    struck.client.send("api_versions", 0)
    await rig.clock.run(60 * SECOND_MS if ask.api != "join_group" else FLUSHED_MS)
    assert struck.client.replies() == []
    assert not await struck.client.closed()
    assert await struck.is_done() == struck.expected(True)


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_disconnect_ends_the_connection_without_an_answer(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(disconnect=True, phase=phase)
    assert await struck.answer() is None
    assert await struck.client.closed()
    assert await struck.is_done() == struck.expected(phase is not Phase.BEFORE)


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_observe_changes_nothing_and_keeps_the_request(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(observe=True, phase=phase)
    assert set(codes(await struck.answer())) <= {"none"}
    assert struck.fault.hits == 1
    (request,) = struck.fault.requests
    assert (request["version"], request["client_id"], request["listener"]) == (ask.version, "test", "PLAINTEXT")
    assert await struck.is_done() == struck.expected(True)


@pytest.mark.parametrize(("ask", "phase"), CASES)
async def test_then_crash_ends_the_broker_in_that_phase(rig: Rig, ask: Ask, phase: Phase) -> None:
    struck = Struck(rig, ask)
    await struck.send(then="crash", phase=phase)
    assert struck.breaking.crashes == ["crash"]
    assert await struck.answer() is None
    assert await struck.is_done() == struck.expected(phase is not Phase.BEFORE)


async def test_a_crash_after_an_error_lets_the_error_out_first(rig: Rig) -> None:
    struck = Struck(rig, ASKS[0])
    await struck.send(error="REQUEST_TIMED_OUT", phase="after_append", then="power_failure")
    assert codes(await struck.answer()) == ["request_timed_out"]
    assert struck.breaking.crashes == []
    await rig.clock.run(20)
    assert struck.breaking.crashes == ["power_failure"]


async def test_without_a_fault_requests_go_straight_to_the_handler(rig: Rig) -> None:
    route = rig.route(0)
    handler = route.handle
    breaking = Breaking(rig)
    first, second = (breaking.set(api="Produce", observe=True) for _ in range(2))
    assert route.handle != handler
    breaking.faults.remove(first)
    assert route.handle != handler
    breaking.faults.remove(second)
    assert route.handle is handler
    await settle()
