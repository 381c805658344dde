"""Transactions of which a power failure left only the records: they end at the next start, as their outcome allows."""

from __future__ import annotations

import asyncio
import errno
from asyncio import Future

import pytest

from broker.coordinators.hanging_transactions import RETRY_MS
from coordinator.transaction.marker_sender import EndMarker, WriteMarker
from coordinator.transaction.rules import end_of_unknown
from coordinator.transaction.transaction_metadata import (
    LAST_EPOCH_FOR_CLIENTS,
    TV_0,
    TV_2,
    TransactionMetadata,
    TransactionState,
)
from metadata.topic_names import TRANSACTION_STATE_TOPIC_NAME
from protocol.topic_partition import PartitionKey
from storage.files import File, read_file
from tests.doubles.clock import settle
from tests.doubles.files import Fault, Unsynced
from tests.unit.broker.rig import Rig
from tests.unit.broker.transactions import CONFIG, V2, Producer, begun, opened
from tests.unit.broker.wire import fetch, produce

STATE_LOG = f"/data/{TRANSACTION_STATE_TOPIC_NAME}-0/00000000000000000000.log"
DATA_LOG = "/data/t-0/00000000000000000000.log"
HERE, ELSEWHERE = ("t", 0), ("t", 1)


def cut(rig: Rig, path: str, size: int) -> None:
    """What a power failure leaves of a file whose end was not synced."""
    file: File = rig.fs.open(path)
    file.truncate(size)
    file.close()


def end_of_batch(rig: Rig, path: str, number: int) -> int:
    """The position after the file's n-th batch (1: the first)."""
    data = read_file(rig.fs, path)
    end = 0
    for _ in range(number):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    return end


async def after_losing(rig: Rig, path: str, size: int) -> Rig:
    """The next node, without what the file had beyond `size`; its first tasks have run."""
    cut(rig, path, size)
    following = await rig.crash(Unsynced.KEPT)
    for _ in range(20):
        await settle()
    return following


def stable(rig: Rig) -> bool:
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    return partition.last_stable_offset == partition.high_watermark


async def test_a_transaction_that_its_coordinator_has_lost_is_aborted_at_the_next_start() -> None:
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    known = rig.fs.size(STATE_LOG)  # the producer, but no transaction
    assert await producer.produce(b"lost", 0) == ["none"]
    after = await after_losing(rig, STATE_LOG, known)
    assert stable(after)
    assert b"lost" not in await committed(after)
    again = await begun(after)
    assert await again.produce(b"kept", 0) == ["none"]
    assert await again.end(commit=True) == "none"
    assert b"kept" in await committed(after, 2)
    await after.stop()


async def test_a_transaction_that_its_coordinator_knows_stays_open() -> None:
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    assert await producer.produce(b"open", 0) == ["none"]
    after = await after_losing(rig, STATE_LOG, rig.fs.size(STATE_LOG))
    assert not stable(after)
    producer = continued(after, producer)
    assert await producer.end(commit=True) == "none"
    assert stable(after)
    assert b"open" in await committed(after)
    await after.stop()


async def test_a_committed_transaction_without_its_marker_is_committed_again() -> None:
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    assert await producer.produce(b"kept", 0) == ["none"]
    without_marker = rig.fs.size(DATA_LOG)
    assert await producer.end(commit=True) == "none"
    after = await after_losing(rig, DATA_LOG, without_marker)
    assert stable(after)
    assert b"kept" in await committed(after)
    await after.stop()


def continued(rig: Rig, producer: Producer) -> Producer:
    """The same producer, connected to the next node."""
    other = Producer(rig.connect(), producer.name)
    other.producer_id, other.epoch = producer.producer_id, producer.epoch
    return other


async def committed(rig: Rig, offset: int = 0) -> bytes:
    """What a consumer of committed records gets, without the batches that the answer calls aborted."""
    told = await rig.connect().ask("fetch", 12, **fetch([("t", 0, offset)], max_wait_ms=0, isolation_level=1))
    partition = told.responses[0].partitions[0]
    return b"" if partition.aborted_transactions else bytes(partition.records or b"")


async def test_a_commit_that_is_carried_on_does_not_commit_a_later_transaction() -> None:
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    assert await producer.produce(b"first", 0) == ["none"]
    assert await producer.end(commit=True) == "none"
    prepared = end_of_batch(rig, STATE_LOG, 3)  # after the producer's and the open transaction's
    assert await producer.produce(b"second", 0) == ["none"]
    after = await after_losing(rig, STATE_LOG, prepared)
    assert stable(after)
    assert b"second" not in await committed(after, 2)
    await after.stop()


async def test_a_commit_that_is_carried_on_does_not_commit_an_aborted_transaction() -> None:
    """The partition's log has lost the abort, and the transaction that was committed later."""
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    assert await producer.produce(b"aborted", 0) == ["none"]
    size = rig.fs.size(DATA_LOG)
    assert await producer.end(commit=False) == "none"
    assert await producer.produce(b"committed", 0) == ["none"]
    assert await producer.end(commit=True) == "none"
    cut(rig, STATE_LOG, end_of_batch(rig, STATE_LOG, 6))  # all but the last one, which completes the commit
    after = await after_losing(rig, DATA_LOG, size)
    assert stable(after)
    assert b"aborted" not in await committed(after)
    await after.stop()


async def test_all_are_ended_from_one_look_at_the_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a producer could go on in the next partition while the marker of the first is being flushed."""
    rig = Rig(config=CONFIG)
    await rig.start()
    await rig.create("t", 2)
    producer = await begun(rig)
    known = rig.fs.size(STATE_LOG)
    for index in (0, 1):
        records = producer.fields(b"lost", 0)["topic_data"][0].partition_data[0].records
        await producer.client.ask("produce", V2, **{**produce("t", {index: records}), "transactional_id": "tx"})
    cut(rig, STATE_LOG, known)
    rig.fs.crash(Unsynced.KEPT)
    following = Rig(fs=rig.fs, clock=rig.clock, seed=2, config=CONFIG)
    await following.start()
    flushes: dict[PartitionKey, Future[None]] = {}

    def marker_writer(_marker: EndMarker) -> WriteMarker:
        return lambda topic, index: flushes.setdefault((topic, index), asyncio.get_running_loop().create_future())

    monkeypatch.setattr(following.node.coordinators.transactions.markers, "marker_writer_here", marker_writer)
    for _ in range(20):
        await settle()
    assert set(flushes) == {HERE, ELSEWHERE}
    for flush in flushes.values():
        flush.set_result(None)
    await following.stop()


async def test_without_room_the_marker_is_written_later() -> None:
    rig = Rig(config=CONFIG)
    await rig.start()
    producer = await opened(rig)
    known = rig.fs.size(STATE_LOG)
    assert await producer.produce(b"lost", 0) == ["none"]
    cut(rig, STATE_LOG, known)
    rig.fs.crash(Unsynced.KEPT)
    following = Rig(fs=rig.fs, clock=rig.clock, seed=2, config=CONFIG)
    await following.start()
    following.fs.inject(Fault("pwrite", 1, errno.ENOSPC, path_part="/t-0/"))
    await settle()
    assert not stable(following)
    await following.clock.run(RETRY_MS)
    assert stable(following)
    await following.stop()


PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
ONGOING, COMPLETE_ABORT = TransactionState.ONGOING, TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize(
    ("state", "known_epoch", "version", "partition", "expected"),
    [
        (ONGOING, 3, TV_2, HERE, None),
        (ONGOING, 3, TV_2, ELSEWHERE, False),
        (ONGOING, 2, TV_2, HERE, False),  # an older one: the partition would refuse its marker
        (ONGOING, 4, TV_2, HERE, False),  # a newer one
        (PREPARE_COMMIT, 5, TV_2, HERE, False),
        (PREPARE_COMMIT, 4, TV_0, HERE, False),
        (PREPARE_ABORT, 5, TV_2, HERE, None),  # its marker will do
        (PREPARE_ABORT, 2, TV_0, HERE, False),
        (PREPARE_COMMIT, 4, TV_2, HERE, None),
        (PREPARE_COMMIT, 3, TV_2, HERE, False),  # that of the transaction before it
        (PREPARE_COMMIT, 3, TV_0, HERE, None),
        (PREPARE_COMMIT, 3, TV_0, ELSEWHERE, False),
        (COMPLETE_COMMIT, 4, TV_2, HERE, True),
        (COMPLETE_COMMIT, 3, TV_2, HERE, False),  # the one before it
        (COMPLETE_COMMIT, 3, TV_0, HERE, False),  # this one, or the one before it
        (COMPLETE_ABORT, 4, TV_2, HERE, False),
        (TransactionState.EMPTY, 4, TV_2, HERE, False),
    ],
)
def test_the_end_follows_from_what_the_coordinator_knows(
    state: TransactionState, known_epoch: int, version: int, partition: PartitionKey, expected: bool | None
) -> None:
    """The partition has producer 7 with epoch 3."""
    partitions = frozenset({HERE}) if state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT) else frozenset()
    known = TransactionMetadata(7, known_epoch, 1, state, partitions, 0, client_version=version)
    assert end_of_unknown(known, 7, 3, partition) is expected


def test_a_producer_id_whose_epochs_were_used_up_is_known_by_the_one_after_it() -> None:
    known = TransactionMetadata(8, 0, 1, COMPLETE_COMMIT, frozenset(), 0, previous_producer_id=7, client_version=TV_2)
    assert end_of_unknown(known, 7, LAST_EPOCH_FOR_CLIENTS, HERE) is True
    assert end_of_unknown(known, 7, LAST_EPOCH_FOR_CLIENTS - 1, HERE) is False


def test_a_producer_that_nobody_knows_is_aborted() -> None:
    assert end_of_unknown(None, 7, 3, HERE) is False
