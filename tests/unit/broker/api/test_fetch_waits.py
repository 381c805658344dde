"""Fetch: long polls and what ends them, limits on bytes, topics that go and come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic

from broker.logging import Tracebacks
from broker.replication.bounds import Bounds
from broker.replication.log_maintenance import delete_records
from broker.replication.partition import Partition
from protocol.errors import UnknownServerError
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import NOW, answer, batch, fetch, frame, produce


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        await one.create("t", 3)
        yield one


async def append(rig: Rig, topic: str, *values: bytes, index: int = 0, **fields: Any) -> None:
    done = await rig.connect().ask("produce", 9, **produce(topic, {index: batch(*values, **fields)}))
    assert done.responses[0].partition_responses[0].error_code.name == "none"


def partitions(reply: bytes) -> list[Any]:
    return [one for topic in answer(reply, "fetch", 12).responses for one in topic.partitions]


def sizes(reply: bytes) -> list[int]:
    return [len(one.records or b"") for one in partitions(reply)]


def waiting(rig: Rig) -> tuple[int, int]:
    return rig.node.replicas.fetch_purgatory.watched, rig.node.replicas.fetch_purgatory.delayed


async def poll(rig: Rig, *places: tuple[str, int, int], **options: Any) -> Client:
    client = rig.connect()
    client.send("fetch", 12, **fetch(places, **{"max_wait_ms": 30_000, **options}))
    await settle()
    return client


async def test_min_bytes_count_across_partitions(rig: Rig) -> None:
    size = len(batch(b"a"))
    client = await poll(rig, ("t", 0, 0), ("t", 1, 0), min_bytes=2 * size)
    await append(rig, "t", b"a", index=0)
    await append(rig, "t", b"a", index=2)
    assert client.replies() == []
    await append(rig, "t", b"a", index=1)
    (reply,) = client.replies()
    assert sizes(reply) == [size, size]
    assert waiting(rig) == (0, 0)


async def test_a_long_poll_ends_with_what_there_is_when_its_time_is_up(rig: Rig) -> None:
    client = await poll(rig, ("t", 0, 0), min_bytes=10_000, max_wait_ms=500)
    await append(rig, "t", b"a")
    await rig.clock.run(499)
    assert client.replies() == []
    await rig.clock.run(2)
    (reply,) = client.replies()
    assert sizes(reply) == [len(batch(b"a"))]
    assert waiting(rig) == (0, 0)


async def test_a_partition_of_which_no_byte_is_wanted_does_not_end_a_long_poll(rig: Rig) -> None:
    """DelayedFetch counts at most a partition's own limit."""
    client = await poll(rig, ("t", 0, 0), partition_max_bytes=0, max_wait_ms=500)
    await append(rig, "t", b"a")
    await rig.clock.run(499)
    assert client.replies() == []
    await rig.clock.run(2)
    assert len(client.replies()) == 1


async def test_after_a_wait_an_idle_partition_is_told_as_it_is_then(rig: Rig) -> None:
    await append(rig, "t", b"a", index=0)
    client = await poll(rig, ("t", 0, 1), ("t", 1, 0), ("t", 2, 0))
    delete_records(rig.node.replicas.find("t", 0), 1)
    assert client.replies() == []
    await append(rig, "t", b"b", index=1)
    (reply,) = client.replies()
    told = [(one.log_start_offset, one.high_watermark, bool(one.records)) for one in partitions(reply)]
    assert told == [(1, 1, False), (0, 1, True), (0, 0, False)]


async def test_a_read_that_fails_unexpectedly_is_counted_as_kafka_counts_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise UnknownServerError

    await append(rig, "t", b"a")
    with monkeypatch.context() as patched:
        patched.setattr(type(rig.node.replicas.find("t", 0)), "plan_read", fails)
        client = await poll(rig, ("t", 0, 0))
    (reply,) = client.replies()
    assert partitions(reply)[0].error_code.name == "unknown_server_error"
    client = await poll(rig, ("t", 0, 7))
    (reply,) = client.replies()
    assert partitions(reply)[0].error_code.name == "offset_out_of_range"
    counted = rig.node.local.metrics.topics["t"]
    assert (counted.total_fetch_requests, counted.failed_fetch_requests) == (2, 1)


async def test_deleting_the_topic_ends_a_long_poll(rig: Rig) -> None:
    await rig.create("gone")
    client = await poll(rig, ("t", 0, 0), ("gone", 0, 0))
    await rig.delete("gone")
    (reply,) = client.replies()
    assert {one.error_code.name for one in partitions(reply)} == {"none", "unknown_topic_or_partition"}
    assert waiting(rig) == (0, 0)


async def test_a_topic_made_anew_has_a_new_id_and_nothing_of_the_old_one(rig: Rig) -> None:
    await rig.create("again")
    await append(rig, "again", b"old")
    old = rig.node.cluster.cache.topic("again").id
    await rig.delete("again")
    await rig.create("again")
    assert rig.node.cluster.cache.topic("again").id != old
    assert rig.node.cluster.cache.topic_by_id(old) is None
    client = await poll(rig, ("again", 0, 0), max_wait_ms=0)
    (reply,) = client.replies()
    assert [(one.error_code.name, one.high_watermark) for one in partitions(reply)] == [("none", 0)]
    await append(rig, "again", b"new")
    assert rig.node.replicas.get("again", 0).log_end_offset == 1


async def test_a_deleted_topic_stays_deleted_when_the_machine_fails_half_way() -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t", 3)
    await rig.create("kept")

    def stop_at_rename(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("t-1"):
            rig.fs.hook = None
            raise OSError(5, "the machine fails here")

    rig.fs.hook = stop_at_rename
    await rig.delete("t")
    after = await rig.crash()
    assert after.node.cluster.cache.topic("t") is None
    assert [partition.key for partition in after.node.replicas] == [("kept", 0)]
    assert not [name for name in rig.fs.listdir("/data") if name.startswith("t-")]
    await after.stop()


async def test_many_long_polls_wait_without_a_scan(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    request = frame("fetch", 12, 1, **fetch([("t", 1, 0)], max_wait_ms=600_000))
    others = [rig.connect() for _ in range(2_000)]
    for other in others:
        other.transport.feed(request)
    await settle()
    client = await poll(rig, ("t", 0, 0))
    tried = 0
    partition = rig.node.replicas.get("t", 1)
    read_bounds: Callable[[Partition], Bounds] = vars(Partition)["bounds"].fget

    def counted(self: Partition) -> Bounds:
        nonlocal tried
        tried += self is partition
        return read_bounds(self)

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "bounds", property(counted))
        await append(rig, "t", b"a", index=0)
    assert len(client.replies()) == 1
    assert tried == 0
    assert waiting(rig) == (2_000, 2_000)
    for other in others:
        other.transport.reset()
    await settle()
    assert waiting(rig) == (0, 0)


async def test_a_read_that_waits_for_the_device_outlives_its_lost_connection(rig: Rig, tracebacks: Tracebacks) -> None:
    await append(rig, "t", b"a")
    rig.fs.page_cache_cold = True
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, 0)]))
    segment = rig.node.replicas.get("t", 0).log.segments.active
    for _turn in ("the handler's task", "its read"):
        await asyncio.sleep(0)
    assert segment.file._users == 1
    client.transport.reset()
    await settle()
    assert segment.file._users == 0
    assert not rig.node.dispatcher._tasks
    assert tracebacks.count == 0


async def test_max_bytes_bound_the_answer_but_never_its_first_batch(rig: Rig) -> None:
    for index in range(3):
        for _ in range(3):
            await append(rig, "t", bytes(1000), index=index)
    size = len(batch(bytes(1000)))
    places = [("t", index, 0) for index in range(3)]
    assert sizes((await poll(rig, *places, max_bytes=10)).replies()[0]) == [size, 0, 0]
    assert sizes((await poll(rig, *places, max_bytes=2 * size)).replies()[0]) == [2 * size, 0, 0]
    assert sizes((await poll(rig, *places, max_bytes=4 * size)).replies()[0]) == [3 * size, size, 0]
    assert sizes((await poll(rig, *places, partition_max_bytes=size)).replies()[0]) == [size, size, size]


async def test_the_broker_bounds_the_answer_whatever_is_asked() -> None:
    async with Rig(config={"fetch.max.bytes": "3000"}) as rig:
        await rig.create("t")
        for _ in range(10):
            await append(rig, "t", bytes(1000))
        client = await poll(rig, ("t", 0, 0), max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1)
        assert sizes(client.replies()[0]) <= [3000]


async def test_names_that_no_topic_has_are_not_counted(rig: Rig) -> None:
    for number in range(10):
        await poll(rig, (f"unknown{number}", 0, 0), max_wait_ms=0)
    assert not [name for name in rig.node.local.metrics.topics if name.startswith("unknown")]


async def test_offsets_by_time(rig: Rig) -> None:
    await append(rig, "t", b"a", b"b", b"c")

    async def ask(timestamp: int) -> tuple[str, int, int]:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = (ListOffsetsTopic(name="t", partitions=(asked,)),)
        told = await rig.connect().ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        one = told.topics[0].partitions[0]
        return one.error_code.name, one.offset, one.timestamp

    assert await ask(NOW + 1) == ("none", 1, NOW + 1)
    assert await ask(NOW + 2) == ("none", 2, NOW + 2)
    assert await ask(NOW + 3) == ("none", -1, -1)
    assert await ask(-1) == ("none", 3, -1)
    assert await ask(-2) == ("none", 0, -1)
    assert await ask(-3) == ("none", 2, NOW + 2)


def metadata(*names: str) -> dict[str, Any]:
    topics = tuple(MetadataRequestTopic(topic_id=None, name=name) for name in names)
    return {"topics": topics, "allow_auto_topic_creation": True, "include_topic_authorized_operations": False}


async def test_two_that_create_a_topic_by_asking_for_it_make_one(rig: Rig) -> None:
    one, other = rig.connect(), rig.connect()
    one.send("metadata", 12, **metadata("auto", "auto"))
    other.send("metadata", 12, **metadata("auto"))
    await settle()
    told = [answer(client.replies()[0], "metadata", 12).topics[0].error_code.name for client in (one, other)]
    assert told == ["unknown_topic_or_partition"] * 2
    first = await one.ask("metadata", 12, **metadata("auto"))
    second = await other.ask("metadata", 12, **metadata("auto"))
    assert first.topics[0].error_code.name == "none"
    assert first.topics[0].topic_id == second.topics[0].topic_id
    await append(rig, "auto", b"a")


async def test_a_topic_that_cannot_have_its_replicas_is_not_created_by_asking() -> None:
    rig = Rig(config={"default.replication.factor": "3"})
    await rig.start()
    for _ in range(2):
        told = await rig.connect().ask("metadata", 12, **metadata("auto"))
        assert told.topics[0].error_code.name == "unknown_topic_or_partition"
        await settle()
    assert rig.node.cluster.cache.topic("auto") is None
    await rig.stop()


async def test_a_topic_created_by_asking_stays_when_the_client_is_gone(rig: Rig) -> None:
    client = rig.connect()
    client.send("metadata", 12, **metadata("auto"))
    client.transport.reset()
    await settle()
    assert rig.node.replicas.get("auto", 0) is not None


async def test_a_consumer_waits_at_most_odradek_fetch_max_wait_ms() -> None:
    async with Rig(config={"odradek.fetch.max.wait.ms": "20"}) as rig:
        await rig.create("t")
        client = await poll(rig, ("t", 0, 0))
        await rig.clock.run(19)
        assert client.replies() == []
        await rig.clock.run(2)
        (reply,) = client.replies()
        assert sizes(reply) == [0]
