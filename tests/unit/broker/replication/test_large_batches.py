"""Large batches are checked in a worker thread: order, and every check of state, are as if they were not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from protocol.records.compression import Compression
from storage.folders.log_dirs import LogDir
from storage.log.validator import MOST_BYTES_AT_ONCE, MOST_RECORDS_AT_ONCE
from tests.doubles.clock import settle
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.transactions import CONFIG, V1, V2, begun
from tests.unit.broker.wire import answer, batch, produce

VERSION = 9
BOMB = batch(bytes(4 * MOST_BYTES_AT_ONCE), compression=Compression.GZIP)
MANY = batch(*[b""] * (MOST_RECORDS_AT_ONCE + 1))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(workers=HeldLane("large batches"), config=CONFIG) as started:
        await started.create("t", 2)
        yield started


def run_next(rig: Rig) -> None:
    assert isinstance(rig.workers, HeldLane)
    rig.workers.run_next()


def results(client: Client, version: int = VERSION) -> list[tuple[str, int]]:
    """(error, base offset) of every partition of every answer since the last call."""
    return [
        (partition.error_code.name, partition.base_offset)
        for reply in client.replies()
        for topic in answer(reply, "produce", version).responses
        for partition in topic.partition_responses
    ]


def end(rig: Rig, index: int = 0) -> int:
    partition = rig.node.replicas.get("t", index)
    assert partition is not None
    return partition.log_end_offset


def of_producer(sequence: int, data: bytes = b"small", **fields: Any) -> bytes:
    return batch(data, producer_id=7, producer_epoch=0, base_sequence=sequence, **fields)


@pytest.mark.parametrize("data", [BOMB, MANY], ids=["unpacks to much", "many records"])
async def test_a_large_batch_is_appended_when_its_check_is_over(rig: Rig, data: bytes) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: data}))
    await settle()
    assert (results(client), end(rig)) == ([], 0)
    run_next(rig)
    await settle()
    assert results(client) == [("none", 0)]
    assert end(rig) > 0


async def test_other_clients_and_other_partitions_of_the_request_do_not_wait(rig: Rig) -> None:
    client, other = rig.connect(), rig.connect()
    client.send("produce", VERSION, **produce("t", {0: BOMB, 1: batch(b"small")}))
    other.send("produce", VERSION, **produce("t", {0: batch(b"small")}))
    await settle()
    assert results(other) == [("none", 0)]
    assert (results(client), end(rig, 1)) == ([], 1)
    run_next(rig)
    await settle()
    assert results(client) == [("none", 1), ("none", 0)]


async def test_a_small_batch_of_the_same_connection_does_not_overtake(rig: Rig) -> None:
    client = rig.connect()
    large = of_producer(0, bytes(4 * MOST_BYTES_AT_ONCE), compression=Compression.GZIP)
    client.send("produce", VERSION, **produce("t", {0: large}))
    for sequence in (1, 2):
        client.send("produce", VERSION, **produce("t", {0: of_producer(sequence)}))
    await settle()
    assert (results(client), end(rig)) == ([], 0)
    run_next(rig)
    await settle()
    assert results(client) == [("none", 0), ("none", 1), ("none", 2)]


async def test_a_retry_on_another_connection_makes_no_second_copy(rig: Rig) -> None:
    first, second = rig.connect(), rig.connect()
    large = of_producer(0, bytes(4 * MOST_BYTES_AT_ONCE), compression=Compression.GZIP)
    for client in (first, second):
        client.send("produce", VERSION, **produce("t", {0: large}))
    await settle()
    run_next(rig)
    run_next(rig)
    await settle()
    assert (results(first), results(second), end(rig)) == ([("none", 0)], [("none", 0)], 1)


async def test_records_that_the_check_refuses_are_refused(rig: Rig) -> None:
    damaged = bytearray(BOMB)
    damaged[-1] ^= 1
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: bytes(damaged)}))
    await settle()
    assert results(client) == [("corrupt_message", -1)], "the checksum is looked at before"
    await rig.create("compacted", cleanup_policy="compact")
    client.send("produce", VERSION, **produce("compacted", {0: MANY}))
    await settle()
    run_next(rig)
    await settle()
    assert results(client) == [("invalid_record", -1)]


async def test_the_partition_is_deleted_meanwhile(rig: Rig) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: BOMB}))
    await settle()
    await rig.delete("t")
    run_next(rig)
    await settle()
    assert [code for code, _ in results(client)] == ["not_leader_or_follower"]


async def test_the_folder_fails_meanwhile(rig: Rig) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: BOMB}))
    await settle()
    (log_dir,) = rig.node.replicas.logs.usable_dirs
    assert isinstance(log_dir, LogDir)
    rig.node.replicas.logs.fail_folder(log_dir, OSError("gone"))
    run_next(rig)
    await settle()
    assert [code for code, _ in results(client)] == ["kafka_storage_error"]


async def test_a_changed_configuration_is_what_the_batch_is_checked_against(rig: Rig) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: MANY}))
    await settle()
    await rig.configure("t", max_message_bytes="1000")
    run_next(rig)
    await settle()
    assert results(client) == []
    run_next(rig)
    await settle()
    assert results(client) == [("message_too_large", -1)]


async def test_without_acknowledgement_nothing_is_answered_and_all_is_written_in_order(rig: Rig) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: BOMB}, acks=0))
    client.send("produce", VERSION, **produce("t", {0: batch(b"small")}))
    await settle()
    run_next(rig)
    await settle()
    assert results(client) == [("none", 1)]


async def test_a_lost_connection_takes_nothing_back(rig: Rig) -> None:
    client = rig.connect()
    client.send("produce", VERSION, **produce("t", {0: BOMB}))
    await settle()
    client.transport.reset()
    await settle()
    run_next(rig)
    await settle()
    assert end(rig) == 1


@pytest.mark.parametrize("version", [V1, V2])
async def test_a_transaction_that_ended_meanwhile_gets_no_batch(rig: Rig, version: int) -> None:
    producer = await begun(rig)
    producer.send(b"opens it", 0, V2)
    await settle()
    producer.told(V2)
    records = batch(
        bytes(4 * MOST_BYTES_AT_ONCE),
        compression=Compression.GZIP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=1,
        transactional=True,
    )
    client = rig.connect()
    client.send("produce", version, **produce("t", {0: records}), transactional_id=producer.name)
    await settle()
    before = end(rig)
    await producer.end(commit=True)
    run_next(rig)
    await settle()
    (told,) = results(client, version)
    assert told[0] != "none"
    assert end(rig) == before + 1, "the marker alone"


async def test_a_large_batch_of_an_open_transaction_is_appended(rig: Rig) -> None:
    producer = await begun(rig)
    records = batch(
        bytes(4 * MOST_BYTES_AT_ONCE),
        compression=Compression.GZIP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    client = rig.connect()
    client.send("produce", V2, **produce("t", {0: records}), transactional_id=producer.name)
    await settle()
    run_next(rig)
    await settle()
    assert results(client, V2) == [("none", 0)]
