"""Faults of connections: reset, refused, slow, and silent ones; and what passes once they are lifted."""

from __future__ import annotations

from typing import Any

import pytest

from broker.faults.connections import ConnectionFaultKind
from broker.faults.spec import FaultError
from tests.doubles.clock import settle
from tests.unit.broker.faults.breaking import Breaking
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import batch, frame, produce

SECOND_MS = 1000


@pytest.fixture
async def rig() -> Any:
    async with Rig() as rig:
        await rig.create("t")
        yield rig


async def named(rig: Rig, client_id: str) -> Client:
    """A connection whose first request has named its client."""
    client = rig.connect()
    ask(client, client_id)
    await settle()
    assert len(client.replies()) == 1
    return client


def ask(client: Client, client_id: str) -> None:
    client.transport.feed(frame("api_versions", 0, 1, client_id=client_id))


async def test_disconnect_resets_the_connections_of_one_client(rig: Rig) -> None:
    connections = Breaking(rig).faults.connections
    chosen, other = await named(rig, "chosen"), await named(rig, "other")
    assert connections.disconnect({"client_id": "chosen"}) == 1
    assert await chosen.closed()
    assert not await other.closed()
    assert connections.disconnect({}) == 1
    assert await other.closed()


async def test_refused_connections_are_reset_and_those_that_there_are_stay(rig: Rig) -> None:
    breaking = Breaking(rig)
    before = await named(rig, "a")
    fault = breaking.faults.connections.set(ConnectionFaultKind.REFUSE, {})
    assert await rig.connect().closed()
    assert not await before.closed()
    assert fault.hits == 1
    breaking.faults.remove(fault)
    assert rig.node.server.door is None
    await named(rig, "a")


@pytest.mark.parametrize("known_before", [True, False])
async def test_on_a_stalled_connection_nothing_passes_until_the_fault_is_removed(rig: Rig, known_before: bool) -> None:
    breaking = Breaking(rig)
    connections = breaking.faults.connections
    client = await named(rig, "c") if known_before else rig.connect()
    fault = connections.set(ConnectionFaultKind.STALL, {"client_id": "c"})
    other = await named(rig, "other")
    ask(client, "c")
    ask(other, "other")
    await rig.clock.run(60 * SECOND_MS)
    assert client.replies() == []
    assert len(other.replies()) == 1
    assert not await client.closed()
    assert fault.hits == 1
    breaking.faults.remove(fault)
    await settle()
    assert len(client.replies()) == 1
    ask(client, "c")
    await settle()
    assert len(client.replies()) == 1


async def test_only_one_direction_may_be_stalled(rig: Rig) -> None:
    breaking = Breaking(rig)
    client = await named(rig, "c")
    breaking.faults.connections.set(ConnectionFaultKind.STALL, {"direction": "replies"})
    client.send("produce", 9, **produce("t", {0: batch(b"v")}))
    await settle()
    assert client.replies() == []
    assert rig.node.replicas.get("t", 0).log_end_offset == 1


async def test_replies_to_a_throttled_client_come_by_the_byte(rig: Rig) -> None:
    breaking = Breaking(rig)
    client = await named(rig, "c")
    whole = len(client.transport.sent)
    breaking.faults.connections.set(ConnectionFaultKind.THROTTLE, {"bytes_per_second": 100.0, "direction": "replies"})
    ask(client, "c")
    await rig.clock.run(SECOND_MS)
    assert 80 <= len(client.transport.sent) - whole <= 120
    await rig.clock.run(whole / 100 * SECOND_MS)
    assert len(client.replies()) == 1


async def test_requests_of_a_throttled_client_are_read_slowly(rig: Rig) -> None:
    breaking = Breaking(rig)
    client = await named(rig, "c")
    breaking.faults.connections.set(ConnectionFaultKind.THROTTLE, {"bytes_per_second": 1000.0, "direction": "requests"})
    for _ in range(2):
        client.transport.feed(frame("produce", 9, 1, client_id="c", **produce("t", {0: batch(bytes(5000))})))
    ends = []
    for _ in range(3):
        await rig.clock.run(4.5 * SECOND_MS)
        ends.append(rig.node.replicas.get("t", 0).log_end_offset)
    assert ends == [0, 1, 2]


async def test_a_throttled_connection_that_closes_sends_what_it_has_first(rig: Rig) -> None:
    breaking = Breaking(rig)
    client = await named(rig, "c")
    breaking.faults.connections.set(ConnectionFaultKind.THROTTLE, {"bytes_per_second": 1000.0})
    client.send("produce", 9, **produce("missing", {0: batch(b"v")}))
    client.send("produce", 9, **produce("missing", {0: batch(b"v")}, acks=0))  # its error closes the connection
    await settle()
    assert not await client.closed()
    await rig.clock.run(SECOND_MS)
    assert len(client.replies()) == 1
    assert await client.closed()


async def test_two_faults_may_hold_one_connection_and_a_lost_one_is_forgotten(rig: Rig) -> None:
    breaking = Breaking(rig)
    client = await named(rig, "c")
    faults = [
        breaking.faults.connections.set(kind, {"bytes_per_second": 1e6})
        for kind in (ConnectionFaultKind.THROTTLE, ConnectionFaultKind.STALL)
    ]
    ask(client, "c")
    await rig.clock.run(SECOND_MS)
    assert client.replies() == []
    breaking.faults.remove(faults[1])
    await rig.clock.run(SECOND_MS)
    assert len(client.replies()) == 1
    client.transport.reset()
    await settle()
    assert not faults[0].struck
    assert not rig.node.server.connections


async def test_a_listener_that_there_is_not_is_refused(rig: Rig) -> None:
    with pytest.raises(FaultError, match="listener = 'X': expected one of PLAINTEXT"):
        Breaking(rig).faults.connections.set(ConnectionFaultKind.STALL, {"listener": "X"})


async def test_who_listens_learns_of_each_hit(rig: Rig) -> None:
    fault = Breaking(rig).faults.set({"api": "ApiVersions", "observe": True})
    seen: list[int] = []
    end = fault.listen(lambda: seen.append(fault.hits))
    await named(rig, "c")
    await named(rig, "c")
    end()
    await named(rig, "c")
    assert (seen, fault.hits) == ([1, 2], 3)
