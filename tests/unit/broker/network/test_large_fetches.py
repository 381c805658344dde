"""Answers with megabytes of records: read as the client takes them, so that a slow client costs little memory."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable

import pytest

from broker.network.gradual_reply import PIECE
from broker.replication.reads import READ_AT_ONCE
from tests.doubles.clock import settle
from tests.doubles.files import Fault
from tests.unit.broker.rig import HIGH_WATER, Client, Rig
from tests.unit.broker.wire import answer, batch, correlation_of, fetch, produce

BATCH = 700_000
LOGS = {0: 6, 1: 1, 2: 3}
"""Batches by partition: several megabytes, less than is read at once, and again several."""
MOST_IN_MEMORY = READ_AT_ONCE + PIECE + HIGH_WATER + 2 * BATCH
EVERYTHING = fetch([("t", index, 0) for index in LOGS], partition_max_bytes=50 * 1024 * 1024)


def records(index: int) -> bytes:
    """A partition's log, as it is sent."""
    sent = b""
    for number in range(LOGS[index]):
        one = bytearray(batch(bytes([index, number]) * (BATCH // 2)))
        one[:8] = number.to_bytes(8, "big")
        one[12:16] = b"\0\0\0\0"  # the leader epoch
        sent += one
    return sent


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        await one.create("t", len(LOGS), max_message_bytes="10000000")
        client = one.connect()
        for index, count in LOGS.items():
            for number in range(count):
                value = bytes([index, number]) * (BATCH // 2)
                done = await client.ask("produce", 9, **produce("t", {index: batch(value)}))
                assert done.responses[0].partition_responses[0].error_code.name == "none"
        yield one


async def stalled(rig: Rig) -> Client:
    """A client that asked for everything, and takes nothing."""
    client = rig.connect()
    client.transport.stalled = True
    client.send("fetch", 12, **EVERYTHING)
    await settle()
    return client


async def take(client: Client) -> None:
    """Take what is there, and then nothing again."""
    client.transport.take()
    client.transport.stalled = True
    await settle()


async def take_all(client: Client) -> None:
    client.transport.take()
    await settle()


def sent_records(reply: bytes) -> dict[int, bytes]:
    (topic,) = answer(reply, "fetch", 12).responses
    assert [one.error_code.name for one in topic.partitions] == ["none"] * len(topic.partitions)
    return {one.partition_index: one.records for one in topic.partitions}


@pytest.mark.parametrize("cold", [False, True], ids=["from memory", "from the device"])
async def test_the_answer_is_whole(rig: Rig, cold: bool) -> None:
    rig.fs.page_cache_cold = cold
    client = rig.connect()
    client.send("fetch", 12, **EVERYTHING)
    await settle()
    (reply,) = client.replies()
    assert sent_records(reply) == {index: records(index) for index in LOGS}


async def test_a_client_that_takes_little_costs_little(rig: Rig) -> None:
    client = await stalled(rig)
    taken = 0
    while client.transport.unsent:
        assert len(client.transport.unsent) <= MOST_IN_MEMORY
        taken += 1
        await take(client)
    (reply,) = client.replies()
    assert sent_records(reply) == {index: records(index) for index in LOGS}
    assert taken > sum(LOGS.values()) * BATCH / MOST_IN_MEMORY


async def test_a_client_that_took_nothing_of_what_came_before_an_answer_costs_little(rig: Rig) -> None:
    client, producer = rig.connect(), rig.connect()
    client.transport.stalled = True
    at_end = fetch([("t", 0, LOGS[0])], partition_max_bytes=50 << 20, min_bytes=8 * BATCH, max_wait_ms=1000)
    client.send("fetch", 12, **at_end)
    await settle()
    client.transport.write(bytes(HIGH_WATER + 1))
    for _ in range(8):
        await producer.ask("produce", 9, **produce("t", {0: batch(bytes(BATCH))}))
    assert HIGH_WATER + 1 < len(client.transport.unsent) <= MOST_IN_MEMORY


async def test_many_large_answers_take_turns_on_the_loop(rig: Rig) -> None:
    clients = [rig.connect() for _ in range(5)]
    for client in clients:
        client.send("fetch", 12, **EVERYTHING)
    clients[1].transport.reset()  # one of those that wait for their turn has gone
    whole = sum(LOGS.values()) * BATCH * 4
    before = 0
    while before < whole:
        await asyncio.sleep(0)
        now = sum(len(client.transport.sent) for client in clients)
        assert now - before <= PIECE + BATCH + 1000
        before = now
    await settle()
    for client in (clients[0], *clients[2:]):
        (reply,) = client.replies()
        assert sent_records(reply) == {index: records(index) for index in LOGS}


async def test_the_next_request_waits_until_the_answer_is_sent(rig: Rig) -> None:
    client = await stalled(rig)
    client.send("api_versions", 0)
    await take(client)
    assert client.connection.idle
    await take_all(client)
    assert [correlation_of(reply) for reply in client.replies()] == [1, 2]


@pytest.mark.parametrize(
    "end",
    [lambda client: client.transport.half_close(), lambda client: client.connection.finish()],
    ids=["the client sends no more", "the node stops"],
)
async def test_a_connection_that_is_to_end_gets_the_whole_answer(rig: Rig, end: Callable[[Client], None]) -> None:
    client = await stalled(rig)
    end(client)
    assert not await client.closed()
    await take_all(client)
    assert [len(sent_records(reply)) for reply in client.replies()] == [len(LOGS)]
    assert await client.closed()


async def test_a_client_that_goes_away_is_forgotten(rig: Rig) -> None:
    client = await stalled(rig)
    reads = rig.fs.operations["pread_nowait"]
    client.transport.reset()
    await settle()
    client.transport.take()
    await settle()
    assert rig.fs.operations["pread_nowait"] == reads
    (one,) = (await rig.connect().ask("fetch", 12, **fetch([("t", 1, 0)]))).responses[0].partitions
    assert one.records == records(1)


async def test_records_of_a_topic_that_is_deleted_meanwhile_are_sent(rig: Rig) -> None:
    client = await stalled(rig)
    others = rig.fs.open_files
    await rig.delete("t")
    await rig.clock.run(61_000)
    assert not [name for name in rig.fs.listdir("/data") if name.startswith("t-")]
    await take_all(client)
    (reply,) = client.replies()
    assert sent_records(reply) == {index: records(index) for index in LOGS}
    assert rig.fs.open_files < others


async def test_a_topic_deleted_before_anything_was_sent_ends_the_connection(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **EVERYTHING)
    for log in rig.node.replicas.logs.logs.values():
        log.retire()
    assert await client.closed()
    assert client.replies() == []
    assert not rig.node.replicas.logs.failed_folders


async def test_a_device_that_fails_meanwhile_ends_the_connection(rig: Rig) -> None:
    client = await stalled(rig)
    rig.fs.inject(Fault("pread_nowait", errno.EIO))
    client.transport.take()
    assert await client.closed()
    assert client.replies() == []
    assert rig.node.replicas.logs.failed_folders
