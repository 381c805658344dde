"""Fetch and ListOffsets: what cannot be read of one partition is that partition's error, and others are answered."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic

from broker.logging import Tracebacks
from broker.replication.log_maintenance import delete_records
from broker.replication.partition import Partition
from storage.append_types import AppendOrigin
from tests.doubles.clock import settle
from tests.doubles.files import Fault
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import NOW, answer, batch, fetch, produce

SIZE = len(batch(b"a"))
LOG = "/data/t-0/00000000000000000000.log"
GONE_BAD = ("corrupt_message", -1, 0)
COMMITTED = 1


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Two partitions with three batches each."""
    async with Rig() as one:
        await one.create("t", 2)
        for value in (b"a", b"b", b"c"):
            for index in range(2):
                await one.connect().ask("produce", 9, **produce("t", {index: batch(value)}))
        yield one


async def read(rig: Rig, offset: int) -> list[tuple[str, int, int]]:
    """Error, high watermark and number of bytes of both partitions from that offset."""
    client = rig.connect()
    client.send("fetch", 12, **fetch([("t", 0, offset), ("t", 1, offset)]))
    await settle()
    (reply,) = client.replies()
    done: Any = answer(reply, "fetch", 12)
    assert done.error_code.name == "none"
    return [
        (one.error_code.name, one.high_watermark, len(one.records or b""))
        for topic in done.responses
        for one in topic.partitions
    ]


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("length", [-1, 0, 13])
async def test_a_length_that_no_batch_has(rig: Rig, length: int, cold: bool) -> None:
    rig.fs.open(LOG).pwrite(length.to_bytes(4, "big", signed=True), 8)
    rig.fs.page_cache_cold = cold
    for offset in range(2):
        assert await read(rig, offset) == [GONE_BAD, ("none", 3, (3 - offset) * SIZE)]
    assert rig.node.local.metrics.topics["t"].failed_fetch_requests == 2


async def test_a_length_that_is_not_looked_at(rig: Rig) -> None:
    rig.fs.open(LOG).pwrite((0).to_bytes(4, "big"), SIZE + 8)
    assert await read(rig, 0) == [("none", 3, 3 * SIZE)] * 2
    assert await read(rig, 1) == [GONE_BAD, ("none", 3, 2 * SIZE)]


async def test_a_batch_that_reaches_beyond_the_segment_is_not_sent(rig: Rig) -> None:
    rig.fs.open(LOG).pwrite((3 * SIZE).to_bytes(4, "big"), 8)
    assert await read(rig, 0) == [("none", 3, 0), ("none", 3, 3 * SIZE)]


@pytest.mark.parametrize("cold", [False, True])
async def test_a_device_that_fails(rig: Rig, cold: bool) -> None:
    rig.fs.page_cache_cold = cold
    rig.fs.inject(Fault("pread" if cold else "pread_nowait", 1, path_part=LOG))
    assert (await read(rig, 0))[0] == ("kafka_storage_error", -1, 0)


async def open_transaction_cut_by_delete_records(rig: Rig) -> Partition:
    """A transaction in t-0 since before the log's start: its last stable offset has to be looked up in the log."""
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    for sequence, value in enumerate((b"d", b"e")):
        records = batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        partition.append(memoryview(records), AppendOrigin.COORDINATOR, NOW)
    delete_records(partition, 4)
    return partition


def out_of_descriptors(rig: Rig, partition: Partition) -> None:
    """The next look into the log finds it closed, and too many files open."""
    partition.log.release_files()
    partition.log.segments.note_truncated()
    rig.fs.inject(Fault("open", 1, errno.EMFILE, path_part=LOG))


async def test_list_offsets_of_a_log_that_cannot_be_opened_now(rig: Rig) -> None:
    out_of_descriptors(rig, await open_transaction_cut_by_delete_records(rig))
    asked = tuple(
        ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in range(2)
    )
    topics = (ListOffsetsTopic(name="t", partitions=asked),)
    done = await rig.connect().ask("list_offsets", 7, replica_id=-1, isolation_level=COMMITTED, topics=topics)
    found = [(one.error_code.name, one.offset) for topic in done.topics for one in topic.partitions]
    assert sorted(found) == [("kafka_storage_error", -1), ("none", 3)]


async def test_a_long_poll_ends_if_a_log_cannot_be_opened_now(rig: Rig, tracebacks: Tracebacks) -> None:
    partition = await open_transaction_cut_by_delete_records(rig)
    client = rig.connect()
    places = [("t", 0, 5), ("t", 1, 3)]
    client.send("fetch", 12, **fetch(places, max_wait_ms=30_000, isolation_level=COMMITTED))
    await settle()
    assert client.replies() == []
    out_of_descriptors(rig, partition)
    rig.node.replicas.fetch_purgatory.check_and_complete(partition.key)
    await settle()
    assert len(client.replies()) == 1
    assert tracebacks.count == 0
