"""Producers: a small model of what Kafka keeps, transactions, expiry, snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    KafkaError,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from protocol.records.batch import ATTRIBUTES_LOW_AT, CONTROL_FLAG, MAX_SEQUENCE, read_header
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from storage.append_types import AppendOrigin
from storage.producers.producer_state import CompletedTxn, Duplicate, ProducerStateManager
from tests.doubles.files import MemoryFileSystem

NOW = 1_700_000_000_000
FOLDER = "/data/t-0"
DAY_MS = 24 * 3600 * 1000


class Log:
    """Batches and an end offset, without the files."""

    def __init__(self, fs: MemoryFileSystem | None = None) -> None:
        self.fs = fs or MemoryFileSystem()
        self.fs.mkdir(FOLDER)
        self.producers = ProducerStateManager(self.fs, FOLDER, "t-0", expiration_ms=DAY_MS)
        self.batches: list[bytes] = []
        self.end = 0

    def append(self, batch: bytearray, origin: AppendOrigin) -> CompletedTxn | Duplicate | None:
        header = read_header(batch)
        checked = self.producers.check(batch, header, origin)
        if isinstance(checked, Duplicate):
            return checked
        completed = self.producers.publish(checked, self.end)
        batch[:8] = self.end.to_bytes(8, "big")
        self.batches.append(bytes(batch))
        self.end += header.last_offset_delta + 1
        return completed

    def data(
        self,
        producer_id: int,
        epoch: int = 0,
        sequence: int = 0,
        count: int = 1,
        *,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        timestamp: int = NOW,
    ) -> CompletedTxn | Duplicate | None:
        batch = build_batch(
            [Record(i, timestamp, None, b"v") for i in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.append(batch, origin)

    def end_txn(
        self, producer_id: int, epoch: int = 0, *, commit: bool = True, coordinator_epoch: int = 0
    ) -> CompletedTxn | Duplicate | None:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = EndTransactionMarker(kind, coordinator_epoch)
        return self.append(
            build_end_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW),
            AppendOrigin.COORDINATOR,
        )

    def state(self) -> dict[int, object]:
        return {
            producer_id: (entry.saved(), tuple(entry.batches))
            for producer_id, entry in self.producers.producers.items()
        }


@pytest.mark.long
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),  # producer
            st.integers(0, 2),  # epoch
            st.integers(-12, 6).map(lambda n: n % (MAX_SEQUENCE + 1)),
            st.integers(1, 3),
        ),
        max_size=40,
    )
)
@settings(max_examples=150)
def test_sequences_follow_the_model(steps: list[tuple[int, int, int, int]]) -> None:
    """Per producer: the epoch, and all appends of that epoch, of which the last five are known as duplicates."""
    log = Log()
    known: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
    for producer_id, epoch, sequence, count in steps:
        current, appends = known.get(producer_id, (-1, []))
        recent = {each[:2]: each[2] for each in appends[-5:]}
        expected: object
        if epoch == current and (sequence, count) in recent:
            expected = Duplicate(recent[sequence, count], recent[sequence, count] + count - 1, NOW)
        elif epoch < current:
            expected = InvalidProducerEpoch
        elif (
            current == -1
            or (epoch > current and sequence == 0)
            or (epoch == current and sequence == (appends[-1][0] + appends[-1][1]) % (MAX_SEQUENCE + 1))
        ):
            expected = None
        else:
            expected = OutOfOrderSequence
        offset = log.end
        before = log.state()
        if isinstance(expected, type):
            with pytest.raises(expected):
                log.data(producer_id, epoch, sequence, count)
            assert log.state() == before
            continue
        assert log.data(producer_id, epoch, sequence, count) == expected
        if expected is None:
            kept = appends if epoch == current else []
            known[producer_id] = (epoch, [*kept, (sequence, count, offset)])


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("wtca")), max_size=40), st.integers(0, 30))
def test_transactions_follow_the_model_and_survive_a_restart(steps: list[tuple[int, str]], snapshot_at: int) -> None:
    """The first unstable offset is that of the oldest open transaction; reloading gives the same state."""
    log = Log()
    begun: dict[int, int] = {}
    for at, (producer_id, kind) in enumerate(steps):
        offset = log.end
        if kind in "wt":
            try:
                log.data(producer_id, 0, -1, transactional=kind == "t", origin=AppendOrigin.COORDINATOR)
            except InvalidTxnState:
                assert kind == "w"
                assert producer_id in begun
            else:
                if kind == "t":
                    begun.setdefault(producer_id, offset)
        else:
            completed = log.end_txn(producer_id, commit=kind == "c")
            first = begun.pop(producer_id, None)
            if first is None:
                assert completed is None
            else:
                stable = min(begun.values(), default=offset + 1)
                assert completed == CompletedTxn(producer_id, first, offset, kind == "a", stable)
        log.producers.on_high_watermark(log.end)
        assert log.producers.first_unstable_offset == min(begun.values(), default=None)
        if at == snapshot_at:
            log.producers.take_snapshot(log.end)
    loaded = ProducerStateManager(log.fs, FOLDER, "t-0", expiration_ms=DAY_MS)
    start = loaded.load(0, log.end, NOW)
    for batch in log.batches:
        header = read_header(batch)
        if header.base_offset >= start:
            loaded.replay(header, batch)
            loaded.on_high_watermark(header.next_offset)
    assert loaded.first_unstable_offset == log.producers.first_unstable_offset
    saved = {pid: entry.saved() for pid, entry in loaded.producers.items()}
    assert saved == {pid: entry.saved() for pid, entry in log.producers.producers.items()}


def test_an_ended_transaction_is_unstable_until_the_high_watermark_passes_its_marker() -> None:
    log = Log()
    log.data(1, transactional=True)
    log.data(2, transactional=True)
    log.end_txn(1)
    assert log.producers.first_unstable_offset == 0
    log.producers.on_high_watermark(2)
    assert log.producers.first_unstable_offset == 0
    log.producers.on_high_watermark(3)
    assert log.producers.first_unstable_offset == 1


def test_transaction_coordinator_fenced_for_an_older_coordinator_epoch() -> None:
    log = Log()
    log.data(1, transactional=True)
    log.end_txn(1, coordinator_epoch=5)
    log.data(1, sequence=1, transactional=True)
    with pytest.raises(TransactionCoordinatorFenced):
        log.end_txn(1, coordinator_epoch=4)
    assert log.producers.first_unstable_offset == 0


def test_invalid_producer_epoch_for_the_old_one_after_a_marker_of_a_new_epoch() -> None:
    log = Log()
    log.data(1, sequence=0, count=3, transactional=True)
    log.end_txn(1, epoch=1)
    with pytest.raises(OutOfOrderSequence):
        log.data(1, epoch=1, sequence=3)
    with pytest.raises(InvalidProducerEpoch):
        log.data(1, epoch=0, sequence=3)
    assert log.data(1, epoch=1, sequence=0) is None


def test_a_marker_of_the_same_epoch_leaves_what_transactions_v2_tried() -> None:
    log = Log()
    log.producers.verifications.begin(1, 0, -1, supports_epoch_bump=True)
    log.end_txn(1, epoch=0)
    with pytest.raises(OutOfOrderSequence):
        log.data(1, epoch=0, sequence=0)
    log.end_txn(1, epoch=1)
    assert log.data(1, epoch=1, sequence=0) is None


def test_replicated_batches_are_taken_as_they_are() -> None:
    log = Log()
    for epoch, sequence in ((3, 7), (3, 7), (2, 100), (5, 1)):
        assert log.data(1, epoch, sequence, origin=AppendOrigin.REPLICATION) is None
    assert log.producers.producers[1].producer_epoch == 5


def test_coordinators_need_no_sequence() -> None:
    log = Log()
    for _ in range(2):
        assert log.data(1, 3, -1, origin=AppendOrigin.COORDINATOR) is None
    with pytest.raises(InvalidProducerEpoch):
        log.data(1, 2, -1, origin=AppendOrigin.COORDINATOR)


def test_a_control_batch_without_a_marker_is_refused() -> None:
    log = Log()
    batch = build_batch([Record(0, NOW, b"\0\0\0\x03", b"")], producer_id=1, producer_epoch=0)
    batch[ATTRIBUTES_LOW_AT] |= CONTROL_FLAG
    with pytest.raises(InvalidRecord):
        log.append(batch, AppendOrigin.COORDINATOR)
    assert log.state() == {}


def test_producer_id_expiration_ms_of_idle_producers_without_an_open_transaction() -> None:
    log = Log()
    log.data(1, timestamp=NOW)
    log.data(2, timestamp=NOW + 1)
    log.data(3, timestamp=NOW, transactional=True)
    log.producers.remove_expired(NOW + DAY_MS)
    assert set(log.producers.producers) == {2, 3}
    assert log.data(1, epoch=0, sequence=77) is None


def test_expired_producers_are_not_loaded() -> None:
    log = Log()
    log.data(1)
    log.data(2, transactional=True)
    log.producers.take_snapshot(log.end)
    assert log.producers.load(0, log.end, NOW + DAY_MS) == log.end
    assert set(log.producers.producers) == {2}


def test_snapshots_outside_the_log_are_deleted() -> None:
    log = Log()
    assert log.producers.take_snapshot(0) is None
    for offset in (5, 10, 20, 30):
        assert log.producers.take_snapshot(offset) is not None
    assert log.producers.take_snapshot(30) is None
    assert log.producers.load(6, 20, NOW) == 20
    assert log.producers.snapshots.offsets == (10, 20)
    assert log.producers.snapshots.take_unsynced() == [f"{FOLDER}/{offset:020d}.snapshot" for offset in (10, 20)]
    assert log.producers.snapshots.take_unsynced() == []
    assert log.producers.snapshots.forget(10) == f"{FOLDER}/{10:020d}.snapshot"
    assert log.producers.snapshots.forget(10) is None
    assert log.producers.snapshots.offsets == (20,)
    assert log.producers.snapshots.take_unsynced() == []


def test_a_snapshot_knows_the_last_five_batches() -> None:
    """What was not yet acknowledged when the broker died is sent again, also from before the last roll."""
    log = Log()
    for sequence in range(7):
        log.data(1, sequence=sequence)
    whole = log.state()
    log.producers.take_snapshot(log.end)
    assert log.producers.load(0, log.end, NOW) == log.end
    assert log.state() == whole
    assert [type(log.data(1, sequence=sequence)) for sequence in range(2, 8)] == [Duplicate] * 5 + [type(None)]


def test_truncation_forgets_what_came_after() -> None:
    log = Log()
    log.data(1)
    log.producers.take_snapshot(log.end)
    kept = {pid: entry.saved() for pid, entry in log.producers.producers.items()}
    log.data(1, sequence=1)
    log.data(2, transactional=True)
    assert log.producers.load(0, 1, NOW) == 1
    assert {pid: entry.saved() for pid, entry in log.producers.producers.items()} == kept
    assert log.producers.first_unstable_offset is None


def test_every_refusal_has_its_code() -> None:
    codes = {
        error: int(error.code) for error in (InvalidProducerEpoch, OutOfOrderSequence, TransactionCoordinatorFenced)
    }
    assert codes == {InvalidProducerEpoch: 47, OutOfOrderSequence: 45, TransactionCoordinatorFenced: 52}
    assert all(issubclass(error, KafkaError) for error in codes)
