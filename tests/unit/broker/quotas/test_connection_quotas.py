"""Addresses held to their quota of connections: through the whole node, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker.network import server
from tests.doubles.clock import settle
from tests.unit.broker.quotas.limits import METADATA, answered, set_quota
from tests.unit.broker.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        yield one


async def test_connection_creation_rate_an_address_that_connects_too_often_waits_in_vain(rig: Rig) -> None:
    await set_quota(rig, "connection_creation_rate", 1.0, ip="10.0.0.7")
    clients = [rig.connect() for _ in range(12)]
    for client in clients:
        client.send("metadata", 12, **METADATA)
    assert [await answered(client) for client in clients] == [1] * 10 + [0] * 2
    assert len(rig.node.server.connections) == 10
    await rig.clock.run(999)
    assert not clients[-1].transport.lost
    await rig.clock.run(1)
    assert [await client.closed() for client in clients] == [False] * 10 + [True] * 2
    await rig.clock.run(1000)
    assert not await rig.connect().closed()


async def test_addresses_without_a_quota_have_the_defaults(rig: Rig) -> None:
    await set_quota(rig, "connection_creation_rate", 1.0, ip=None)
    await set_quota(rig, "connection_creation_rate", 100.0, ip="10.0.0.8")
    clients = {host: [rig.connect(host) for _ in range(11)] for host in ("10.0.0.7", "10.0.0.8", "10.0.0.9")}
    await settle()
    assert len(rig.node.server.connections) == 10 + 11 + 10
    await set_quota(rig, "connection_creation_rate", None, ip=None)
    assert rig.node.connection_rates.throttle_ms("10.0.0.7") == 0
    assert all(len(some) == 11 for some in clients.values())


async def test_an_address_may_be_shut_out(rig: Rig) -> None:
    await set_quota(rig, "connection_creation_rate", 1e-7, ip="10.0.0.7")
    client = rig.connect()
    await rig.clock.run(1000)
    assert await client.closed()
    again = await rig.crash()
    assert again.node.connection_rates.throttle_ms("10.0.0.7") == 1000
    await again.stop()


async def test_who_waits_in_vain_does_not_keep_the_node_from_stopping(rig: Rig) -> None:
    await set_quota(rig, "connection_creation_rate", 1.0, ip="10.0.0.7")
    clients = [rig.connect() for _ in range(11)]
    await rig.stop()
    assert await clients[-1].closed()
    await rig.start()


# -- metrics


async def test_of_those_who_wait_in_vain_only_the_last_keep_their_descriptors(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_TURNED_AWAY", 3)
    await set_quota(rig, "connection_creation_rate", 1.0, ip="10.0.0.7")
    clients = [rig.connect() for _ in range(10 + 7)]
    assert [await client.closed() for client in clients] == [False] * 10 + [True] * 4 + [False] * 3
    await rig.clock.run(1000)
    assert [await client.closed() for client in clients] == [False] * 10 + [True] * 7


async def test_nothing_is_read_of_who_waits_in_vain(rig: Rig) -> None:
    await set_quota(rig, "connection_creation_rate", 1.0, ip="10.0.0.7")
    *_, client = [rig.connect() for _ in range(11)]
    await settle()
    sent = (50 << 20).to_bytes(4, "big") + bytes(1 << 20)
    client.transport.feed(sent)
    await settle()
    assert len(client.transport.arrived) == len(sent)  # it lies in the kernel's buffer, not in ours
