"""Produce with flush.messages=1: nothing is acknowledged or readable before it is on the device."""

from __future__ import annotations

import errno
import gc
from datetime import timedelta
from typing import Any

import pytest

from broker.replication.batch_checks import distinct
from protocol.errors import InvalidRequest
from protocol.produce_fetch.produce_messages import ProduceRequest
from tests.doubles.clock import settle
from tests.doubles.files import Fault, Unsynced
from tests.doubles.workers import QueuedWorkers
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce

_MINUTE = timedelta(minutes=1)


def results(client: Client) -> list[tuple[str, int]]:
    """(error, base offset) of every partition of every answer since the last call."""
    return [
        (partition.error_code.name, partition.base_offset)
        for reply in client.replies()
        for topic in answer(reply, "produce", 9).responses
        for partition in topic.partition_responses
    ]


async def read(rig: Rig, topic: str, **options: Any) -> tuple[str, bytes]:
    told = await rig.connect().ask("fetch", 12, **fetch([(topic, 0, 0)], max_wait_ms=0, **options))
    partition = told.responses[0].partitions[0]
    return partition.error_code.name, bytes(partition.records or b"")


async def queued(**config: str) -> tuple[Rig, QueuedWorkers]:
    """A node whose flushes run only when told, with a topic `t` of two partitions that flush by message."""
    workers = QueuedWorkers()
    rig = Rig(workers=workers, config=config)
    await rig.start()
    await rig.create("t", 2, flush_messages="1")
    return rig, workers


async def test_acknowledged_and_readable_once_flushed() -> None:
    rig, workers = await queued()
    client = rig.connect()
    for acks in (-1, 1):
        client.send("produce", 9, **produce("t", {0: batch(b"a")}, acks=acks))
    await settle()
    assert results(client) == []
    assert await read(rig, "t") == ("none", b"")
    workers.run_all()
    await settle()
    assert results(client) == [("none", 0), ("none", 1)]
    assert len((await read(rig, "t"))[1]) == 2 * len(batch(b"a"))
    await rig.stop()


async def test_one_flush_covers_every_append_before_it() -> None:
    rig, workers = await queued()
    client = rig.connect()
    syncs = rig.fs.operations["fdatasync"]
    for _ in range(10):
        client.send("produce", 9, **produce("t", {0: batch(b"a")}))
    workers.run_all()
    await settle()
    assert len(results(client)) == 10
    assert rig.fs.operations["fdatasync"] - syncs <= 3
    await rig.stop()


async def test_a_request_of_two_partitions_waits_for_both() -> None:
    rig, workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a"), 1: batch(b"b")}))
    workers.run_next()
    await settle()
    assert results(client) == []
    workers.run_all()
    await settle()
    assert results(client) == [("none", 0), ("none", 0)]
    await rig.stop()


async def test_a_failing_flush_is_told_at_once_and_never_acknowledged() -> None:
    rig, workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a"), 1: batch(b"b")}))
    poll = rig.connect()
    poll.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=30_000))
    await settle()
    rig.fs.inject(Fault("fdatasync", 1, errno.EINVAL, path_part="t-0"))
    workers.run_all()
    await settle()
    assert results(client) == [("kafka_storage_error", -1), ("none", 0)]
    (reply,) = poll.replies()
    assert answer(reply, "fetch", 12).responses[0].partitions[0].error_code.name == "kafka_storage_error"
    client.send("produce", 9, **produce("t", {0: batch(b"c")}))
    await settle()
    assert results(client) == [("kafka_storage_error", -1)]
    await rig.stop()


async def test_a_partition_that_changes_its_folder_refuses_without_a_log_start() -> None:
    """Kafka's ReplicaManager expects NOT_LEADER_OR_FOLLOWER: it is no failed produce request."""
    rig, _ = await queued()
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    partition.log.held_back = True
    told = await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
    (one,) = told.responses[0].partition_responses
    assert (one.error_code.name, one.log_start_offset) == ("not_leader_or_follower", -1)
    partition.log.held_back = False
    await rig.stop()


async def test_what_is_not_flushed_in_time_is_told_as_timed_out() -> None:
    rig, workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}, timeout_ms=100))
    await rig.clock.run(99)
    assert results(client) == []
    await rig.clock.run(2)
    assert results(client) == [("request_timed_out", -1)]
    workers.run_all()
    await settle()
    assert results(client) == []
    assert rig.node.replicas.get("t", 0).high_watermark == 1
    await rig.stop()


async def test_deleting_the_topic_answers_who_waits() -> None:
    rig, _workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}))
    await rig.delete("t")
    await settle()
    assert results(client) == [("unknown_topic_or_partition", -1)]
    assert rig.node.replicas.produce_purgatory.watched == 0
    await rig.stop()


async def test_switching_off_the_flush_by_message_answers_who_waits() -> None:
    rig, workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"a")}))
    await rig.configure("t")
    await settle()
    assert results(client) == [("none", 0)]
    workers.run_all()
    await rig.stop()


async def test_acknowledged_and_flushed_survives_a_power_failure() -> None:
    rig, workers = await queued()
    client = rig.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"kept", producer_id=7, producer_epoch=0, base_sequence=0)}))
    workers.run_all()
    await settle()
    assert results(client) == [("none", 0)]
    client.send("produce", 9, **produce("t", {0: batch(b"lost")}))
    topic_id = rig.node.cluster.cache.topic("t").id
    producer = await rig.connect().ask("init_producer_id", 4, transactional_id=None, transaction_timeout=_MINUTE)
    after = await rig.crash(Unsynced.LOST)
    assert after.node.cluster.cache.topic("t").id == topic_id
    assert after.node.replicas.get("t", 0).log_end_offset == 1
    error, records = await read(after, "t")
    assert (error, b"kept" in records) == ("none", True)
    client = after.connect()
    client.send("produce", 9, **produce("t", {0: batch(b"kept", producer_id=7, producer_epoch=0, base_sequence=0)}))
    client.send("produce", 9, **produce("t", {0: batch(b"next", producer_id=7, producer_epoch=0, base_sequence=1)}))
    assert isinstance(after.workers, QueuedWorkers)
    after.workers.run_all()
    await settle()
    assert results(client) == [("none", 0), ("none", 1)]
    again = await after.connect().ask("init_producer_id", 4, transactional_id=None, transaction_timeout=_MINUTE)
    assert again.producer_id > producer.producer_id
    await after.stop()


@pytest.mark.long
async def test_refused_requests_are_kept_by_nothing() -> None:
    rig, workers = await queued()
    client = rig.connect()
    held = []
    for _ in range(3):
        client.send("produce", 9, **produce("missing", {0: batch(b"a")}))
        await settle()
        assert results(client) == [("unknown_topic_or_partition", -1)]
        gc.collect()
        held.append(sum(type(one).__name__ == "ProduceRequest" for one in gc.get_objects()))
    assert held[0] == held[-1]
    workers.run_all()
    await rig.stop()


def test_a_partition_that_is_named_twice_is_refused() -> None:
    a, b = memoryview(b"a"), memoryview(b"b")

    def named(*topics: tuple[str, list[tuple[int, Any]]]) -> Any:
        return distinct(ProduceRequest(None, -1, 0, [*topics]))

    assert named(("t", [(0, a), (1, b)])) == [("t", [(0, a), (1, b)])]
    assert named(("t", [(0, a)]), ("u", []), ("t", [(1, b)])) == [("t", [(0, a), (1, b)])]
    again: list[Any] = [[("t", [(0, a), (0, b)])], [("t", [(0, a)]), ("u", [(0, a)]), ("t", [(0, b)])]]
    for topics in again:
        with pytest.raises(InvalidRequest, match="Partition 0 of topic t is named twice"):
            named(*topics)
