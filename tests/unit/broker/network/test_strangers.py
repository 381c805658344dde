"""Limits on clients that have not shown who they are: their number, their time, their bytes, their log lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from broker.network.client_lines import LINES, PERIOD_MS, ClientLines
from broker.network.strangers import MOST_BYTES
from tests.doubles.clock import ManualClock, settle
from tests.unit.broker.rig import Client, Rig

CONFIG = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="geheim";'
    ),
    "odradek.max.unauthenticated.connections": "3",
    "odradek.authentication.timeout.ms": "5000",
    "sasl.server.max.receive.size": "1000",
}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=CONFIG) as one:
        await one.secure("SASL", "SASL_PLAINTEXT")
        yield one


async def log_in(client: Client) -> None:
    await client.ask("sasl_handshake", 1, mechanism="PLAIN")
    answer = await client.ask("sasl_authenticate", 2, auth_bytes=b"\0alice\0geheim")
    assert answer.error_code.name == "none"


async def test_the_oldest_stranger_makes_room(rig: Rig) -> None:
    known = rig.connect(listener="SASL")
    await log_in(known)
    strangers = [rig.connect(listener="SASL") for _ in range(4)]
    assert [await client.closed() for client in strangers] == [True, False, False, False]
    assert not await known.closed()
    plaintext = [rig.connect() for _ in range(5)]
    assert not any([await client.closed() for client in plaintext])


async def test_an_address_that_opens_many_connections_turns_out_only_its_own(rig: Rig) -> None:
    slow = rig.connect(host="10.0.0.1", listener="SASL")
    attackers = [rig.connect(host="10.6.6.6", listener="SASL") for _ in range(20)]
    assert not await slow.closed()
    assert [await client.closed() for client in attackers] == [True] * 18 + [False] * 2
    await log_in(slow)


async def test_time_to_authenticate_ends_and_a_known_client_may_idle(rig: Rig) -> None:
    known, stranger = rig.connect(listener="SASL"), rig.connect(listener="SASL")
    await log_in(known)
    await rig.clock.run(4900)
    await stranger.ask("sasl_handshake", 1, mechanism="PLAIN")
    assert not await stranger.closed()
    with capture_logs() as logs:
        await rig.clock.run(200)
    assert await stranger.closed()
    assert not await known.closed()
    assert [line["limit"] for line in logs if "before it had" in str(line["event"])] == [
        "odradek.authentication.timeout.ms"
    ]
    assert len(rig.node.server.strangers) == 0


async def test_requests_are_small_until_the_client_is_known(rig: Rig) -> None:
    stranger, known = rig.connect(listener="SASL"), rig.connect(listener="SASL")
    stranger.transport.feed((1001).to_bytes(4, "big"))
    assert await stranger.closed()
    await log_in(known)
    known.transport.feed((1001).to_bytes(4, "big"))
    assert not await known.closed()


async def test_large_requests_of_strangers_have_little_memory_together() -> None:
    """Each takes two fifths of it; one that is content with less, and one that is known, lose nothing."""
    share = MOST_BYTES * 2 // 5
    config = CONFIG | {"sasl.server.max.receive.size": str(MOST_BYTES), "odradek.max.unauthenticated.connections": "9"}
    async with Rig(config=config) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        small, known, *large = (rig.connect(listener="SASL") for _ in range(5))
        await log_in(known)
        small.transport.feed((2_000).to_bytes(4, "big") + bytes(1_000))
        known.transport.feed(share.to_bytes(4, "big") + bytes(share - 1))
        with capture_logs() as logs:
            for client in large:
                client.transport.feed(share.to_bytes(4, "big") + bytes(share - 1))
                await settle()
        assert [await client.closed() for client in (small, known, *large)] == [False, False, True, False, False]
        assert [line["limit"] for line in logs if "before it had" in str(line["event"])] == [
            f"{MOST_BYTES} bytes of requests before authentication"
        ]
        for client in large[1:]:
            client.transport.reset()
        await settle()
        assert rig.node.server.strangers._bytes == 0


async def test_clients_that_go_are_forgotten(rig: Rig) -> None:
    for _ in range(10):
        rig.connect(listener="SASL").transport.reset()
        await settle()
    assert len(rig.node.server.strangers) == 0


def test_so_many_lines_a_minute_for_each_address() -> None:
    clock = ManualClock()
    lines = ClientLines(clock.monotonic_ms)
    with capture_logs() as logs:
        for _ in range(3 * LINES):
            lines.warn("wrong", "SASL", "a")
        lines.warn("wrong", "SASL", "b")
        lines.warn("wrong", "OTHER", "a")
    assert [line["client"] for line in logs] == ["a"] * LINES + ["b", "a"]
    assert logs[LINES - 1]["further_lines"] == "left out for a minute"
    clock.advance(PERIOD_MS)
    with capture_logs() as logs:
        lines.warn("wrong", "SASL", "a")
        for _ in range(3):
            lines.warn_once("foreign", "SASL", "a")
    assert [line["event"] for line in logs] == ["wrong", "foreign"]
