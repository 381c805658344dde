"""Connection: frames, order, overlap, back-pressure, closing. Bytes in, bytes out, through the whole node."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.network.connection import MAX_OVERLAPPING, TURN_MS
from broker.network.frames import LARGEST_SCRATCH_BYTES, SCRATCH_BYTES, SIZE_BYTES
from broker.network.outbox import LONGEST_WAIT_MS, QUIET_MS
from tests.doubles.clock import settle
from tests.unit.broker.rig import HIGH_WATER, Client, Rig
from tests.unit.broker.wire import answer, batch, correlation_of, fetch, frame, produce, sized

METADATA: dict[str, Any] = {
    "topics": (),
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
GATED = {"flush_messages": "1"}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        await one.create("t")
        yield one


def metadata(correlation: int) -> bytes:
    return frame("metadata", 12, correlation, **METADATA)


async def ids(client: Client) -> list[int]:
    await settle()
    return [correlation_of(reply) for reply in client.replies()]


async def test_frames_split_at_every_byte_and_sent_one_byte_at_a_time(rig: Rig) -> None:
    stream = metadata(1) + frame("api_versions", 0, 2) + metadata(3)
    for at in range(len(stream) + 1):
        client = rig.connect()
        client.transport.feed(stream[:at])
        client.transport.feed(stream[at:])
        assert await ids(client) == [1, 2, 3]
    client = rig.connect()
    for byte in stream:
        client.transport.feed(bytes([byte]))
    assert await ids(client) == [1, 2, 3]


async def test_pipelined_requests_are_answered_in_one_write(rig: Rig) -> None:
    client = rig.connect()
    client.transport.feed(b"".join(map(metadata, range(1, 11))))
    assert await ids(client) == [*range(1, 11)]
    assert client.transport.writes == 1


async def test_replies_of_many_connections_leave_together_once_all_are_handled(rig: Rig) -> None:
    alone, *clients = (rig.connect() for _ in range(4))
    rig.clock.advance(2 * QUIET_MS)
    alone.transport.feed(metadata(1))
    assert alone.transport.writes == 1
    for client in clients:
        client.transport.feed(metadata(1))
    assert [client.transport.writes for client in clients] == [0, 0, 0]
    assert [await ids(client) for client in clients] == [[1], [1], [1]]


async def test_a_reply_waits_for_those_of_others_but_not_for_long(rig: Rig) -> None:
    alone, *clients = (rig.connect() for _ in range(4))
    alone.transport.feed(metadata(1))
    for client, later_ms in zip(clients, (0, LONGEST_WAIT_MS, 1), strict=True):
        assert [one.transport.writes for one in clients] == [0, 0, 0]
        rig.clock.advance(later_ms)
        client.transport.feed(metadata(1))
    assert [one.transport.writes for one in clients] == [1, 1, 1]


@pytest.mark.parametrize("without_reply", ["acks=0", "a long poll"])
async def test_a_reply_does_not_wait_for_many_requests_that_have_none_yet(rig: Rig, without_reply: str) -> None:
    alone, client, other = (rig.connect() for _ in range(3))
    alone.transport.feed(metadata(1))
    client.transport.feed(metadata(1))
    rig.clock.advance(LONGEST_WAIT_MS + 1)
    assert client.transport.writes == 0
    if without_reply == "acks=0":
        other.send("produce", 9, **produce("t", {0: batch(b"a")}, acks=0))
    else:
        other.send("fetch", 12, **fetch([("t", 0, 0)]))
    assert client.transport.writes == 1


async def test_a_client_that_goes_takes_no_reply_of_others_along(rig: Rig) -> None:
    clients = [rig.connect() for _ in range(4)]
    for client in clients:
        client.transport.feed(metadata(1))
    clients[0].transport.reset()
    clients[1].transport.half_close()
    assert [await ids(client) for client in clients] == [[], [1], [1], [1]]
    assert await clients[1].closed()


async def test_a_request_that_was_waited_for_is_answered_at_once(rig: Rig) -> None:
    client = rig.connect()
    for correlation in (1, 2, 3):
        rig.clock.advance(2 * QUIET_MS)
        client.transport.feed(metadata(correlation))
        assert client.transport.writes == correlation


async def test_a_request_behind_a_long_poll_waits_and_reading_pauses(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    client.transport.feed(metadata(2) + metadata(3))
    await settle()
    assert client.replies() == []
    assert not client.transport.reading
    client.transport.feed(metadata(4))
    await rig.clock.run(499)
    assert client.replies() == []
    await rig.clock.run(2)
    assert await ids(client) == [1, 2, 3, 4]
    assert client.transport.reading


async def test_an_announced_frame_behind_a_long_poll_is_not_lost_when_its_rest_comes_late(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    whole = metadata(2)
    client.transport.feed(whole[:7])
    await rig.clock.run(501)
    client.transport.feed(whole[7:])
    assert await ids(client) == [1, 2]


async def test_requests_that_come_together_leave_others_their_turn(rig: Rig) -> None:
    def slowly(operation: str, _path: str) -> None:
        if operation == "pwrite":
            rig.clock.stall(1)

    rig.fs.hook = slowly
    greedy, other = rig.connect(), rig.connect()
    requests = [frame("produce", 9, number, **produce("t", {0: batch(b"a")})) for number in range(20)]
    greedy.transport.feed(b"".join(requests))
    partition = rig.node.replicas.get("t", 0)
    assert TURN_MS < partition.log_end_offset <= TURN_MS + 2
    assert not greedy.transport.reading
    other.transport.feed(metadata(1))
    assert await ids(other) == [1]
    assert await ids(greedy) == [*range(20)]
    assert partition.log_end_offset == 20
    assert greedy.transport.reading


async def test_produce_overlaps_and_answers_keep_their_order(rig: Rig) -> None:
    await rig.create("gated", 2, **GATED)
    client = rig.connect()
    for value in (b"a", b"b", b"c"):
        client.send("produce", 9, **produce("gated", {0: batch(value)}))
    client.send("produce", 9, **produce("t", {0: batch(b"at once")}))
    assert rig.node.replicas.get("gated", 0).log_end_offset == 3
    assert rig.node.replicas.get("t", 0).log_end_offset == 1
    assert client.replies() == []
    await settle()
    replies = client.replies()
    assert [correlation_of(reply) for reply in replies] == [1, 2, 3, 4]
    offsets = [answer(reply, "produce", 9).responses[0].partition_responses[0].base_offset for reply in replies]
    assert offsets == [0, 1, 2, 0]


async def test_only_produce_overlaps_produce(rig: Rig) -> None:
    """As in Kafka a later request of another kind sees what the Produce before it was acknowledged."""
    await rig.create("gated", 1, **GATED)
    client = rig.connect()
    client.send("produce", 9, **produce("gated", {0: batch(b"a")}))
    client.send("fetch", 12, **fetch([("gated", 0, 0)], max_wait_ms=0))
    assert not client.transport.reading
    await settle()
    replies = client.replies()
    assert [correlation_of(reply) for reply in replies] == [1, 2]
    assert answer(replies[1], "fetch", 12).responses[0].partitions[0].high_watermark == 1


async def test_the_number_of_overlapping_requests_is_bounded(rig: Rig) -> None:
    await rig.create("gated", 1, **GATED)
    client = rig.connect()
    for _ in range(MAX_OVERLAPPING + 5):
        client.send("produce", 9, **produce("gated", {0: batch(b"a")}))
    assert rig.node.replicas.get("gated", 0).log_end_offset == MAX_OVERLAPPING
    assert not client.transport.reading
    await settle()
    assert await ids(client) == [*range(1, MAX_OVERLAPPING + 6)]


@pytest.mark.long
async def test_the_bytes_of_overlapping_requests_are_bounded(rig: Rig) -> None:
    await rig.create("gated", 1, **GATED, max_message_bytes="20000000")
    client = rig.connect()
    for _ in range(10):
        client.send("produce", 9, **produce("gated", {0: batch(*[bytes(990_000)] * 4)}))
    assert rig.node.replicas.get("gated", 0).log_end_offset == 36
    await settle()
    assert await ids(client) == [*range(1, 11)]


async def test_a_client_that_does_not_read_is_not_read_from(rig: Rig) -> None:
    client = rig.connect()
    client.transport.stalled = True
    one = rig.connect()
    one.transport.feed(metadata(1))
    await settle()
    size = len(one.transport.sent)
    wanted = 3 * HIGH_WATER // size
    for correlation in range(1, wanted + 1):
        client.transport.feed(metadata(correlation))
    assert not client.transport.reading
    assert len(client.transport.unsent) < 2 * HIGH_WATER
    while len(client.transport.sent) < wanted * size:
        client.transport.take()
        await settle()
    assert await ids(client) == [*range(1, wanted + 1)]
    assert client.transport.reading


async def test_a_half_closed_client_is_answered_and_then_closed(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    client.transport.half_close()
    assert not await client.closed()
    await rig.clock.run(501)
    assert await ids(client) == [1]
    assert await client.closed()


async def test_a_half_closed_client_with_nothing_in_flight_is_closed(rig: Rig) -> None:
    client = rig.connect()
    client.transport.feed(metadata(1)[:9])
    client.transport.half_close()
    assert await client.closed()
    assert not rig.node.server.connections


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1])
async def test_a_size_out_of_bounds_closes_that_connection_alone(rig: Rig, size: int) -> None:
    client, other = rig.connect(), rig.connect()
    client.transport.feed(metadata(1) + size.to_bytes(4, "big", signed=True))
    assert await ids(client) == [1]
    assert await client.closed()
    assert (await other.ask("metadata", 12, **METADATA)).cluster_id == rig.node.cluster.id


@pytest.mark.parametrize("limit", [100, SCRATCH_BYTES, LARGEST_SCRATCH_BYTES + 100])
async def test_a_frame_longer_than_socket_request_max_bytes_is_not_answered_though_it_is_there(limit: int) -> None:
    async with Rig(config={"socket.request.max.bytes": str(limit)}) as rig:
        longest, longer = rig.connect(), rig.connect()
        for client, length in ((longest, limit), (longer, limit + 1)):
            request = metadata(1)[SIZE_BYTES:]
            client.transport.feed(length.to_bytes(4, "big") + request + bytes(length - len(request)))
        assert await ids(longest) == [1]
        assert await longer.closed()
        assert not longer.transport.sent


@pytest.mark.parametrize("length", [SCRATCH_BYTES, LARGEST_SCRATCH_BYTES, 300_000, 3_000_000])
async def test_requests_of_any_length_between_small_ones(rig: Rig, length: int) -> None:
    await rig.create("large", 1, max_message_bytes="10000000")
    value = bytes(range(256)) * (length // 256)
    stream = metadata(1)
    stream += frame("produce", 9, 2, **produce("large", {0: batch(value)}))
    stream += metadata(3)
    client = rig.connect()
    for at in range(0, len(stream), 50_000):
        client.transport.feed(stream[at : at + 50_000])
    assert await ids(client) == [1, 2, 3]
    client.send("fetch", 12, **fetch([("large", 0, 0)]))
    await settle()
    (reply,) = client.replies()
    assert value in bytes(answer(reply, "fetch", 12).responses[0].partitions[0].records)


async def test_a_large_request_behind_a_long_poll_waits_whole(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 5)], max_wait_ms=500))
    assert await ids(client) == [1]
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    client.transport.feed(frame("produce", 9, 3, **produce("t", {0: batch(bytes(200_000))})) + metadata(4))
    await settle()
    assert not client.transport.reading
    await rig.clock.run(501)
    assert await ids(client) == [2, 3, 4]


@pytest.mark.long
async def test_a_lost_connection_leaves_nothing_behind(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=30_000))
    client.transport.feed(metadata(2))
    await settle()
    waiting = len(rig.node.wheel)
    client.transport.reset()
    await settle()
    assert rig.node.replicas.fetch_purgatory.watched == rig.node.replicas.fetch_purgatory.delayed == 0
    assert len(rig.node.wheel) == waiting - 2  # the long poll's and the idle check's
    assert not rig.node.server.connections
    gone = weakref.ref(client.connection)
    del client
    gc.collect()
    assert gone() is None


@pytest.mark.long
async def test_a_connection_closed_with_produce_pending_appends_all_the_same(rig: Rig) -> None:
    await rig.create("gated", 1, **GATED)
    client = rig.connect()
    client.send("produce", 9, **produce("gated", {0: batch(b"a")}))
    client.transport.reset()
    await settle()
    assert rig.node.replicas.get("gated", 0).high_watermark == 1
    assert rig.node.replicas.produce_purgatory.watched == 0
    gone = weakref.ref(client.connection)
    del client
    gc.collect()
    assert gone() is None


async def test_garbage_after_good_requests_is_answered_up_to_it(rig: Rig) -> None:
    client = rig.connect()
    client.transport.feed(metadata(1) + sized(b"\xff" * 20) + metadata(2))
    assert await ids(client) == [1]
    assert await client.closed()


async def test_garbage_behind_a_pending_answer_closes_once_it_is_its_turn(rig: Rig) -> None:
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500))
    client.transport.feed(sized(b"\xff" * 20))
    assert not await client.closed()
    await rig.clock.run(501)
    assert await client.closed()
    assert await ids(client) == [1]
