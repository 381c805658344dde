"""A log's knowledge of its producers: sequences, epochs, open transactions, snapshots.

The rules are those of Kafka's ProducerStateManager and ProducerAppendInfo (KIP-98, KIP-360). A batch is first checked,
which changes nothing, and published once it is in the log.

How it works: for each producer id there is an entry: its epoch, its last five batches, and where its open transaction
began. `check` compares a batch with the entry: the epoch must not be older; with the same epoch the sequence must
follow the last one; a newer epoch begins with 0; a producer that nobody knows, or that has expired, may begin anywhere.
The append's origin decides how strict that is: a client's batches are checked in full, a coordinator's have no
sequences, those that are replicated or recovered are taken as they are. Once the batch is in the log, `publish` changes
the entry. A marker ends the open transaction, whose first offset still holds back the last stable offset until the high
watermark has passed the marker. Snapshots of all entries are written when a segment is rolled, so that recovery reads
only what follows one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import structlog

from protocol.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from protocol.primitives import Buffer
from protocol.records.batch import (
    CONTROL_FLAG,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    advance_sequence,
)
from protocol.records.build import ControlRecordType, EndTransactionMarker, read_control_batch
from storage import damage
from storage.append_types import AppendOrigin
from storage.files import FileSystem
from storage.producers.producer_entry import NO_EPOCH, NO_OFFSET, ProducerStateEntry, Verifications, new_batch_metadata
from storage.producers.snapshot_files import CorruptSnapshotError, SnapshotEntry, SnapshotFiles

logger = structlog.get_logger(__name__)

DEFAULT_EXPIRATION_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is already in the log, at these offsets."""

    first_offset: int
    last_offset: int
    timestamp: int


class ProducerUpdate(NamedTuple):
    """A checked batch, for `publish` to note. `marker` and its time are set only for control batches."""

    entry: ProducerStateEntry
    header: BatchHeader
    marker: EndTransactionMarker | None
    marker_timestamp: int


# Without a Python-level call, like everything made once per batch.
_new_update: Callable[[tuple[ProducerStateEntry, BatchHeader, EndTransactionMarker | None, int]], ProducerUpdate]
_new_update = partial(tuple.__new__, ProducerUpdate)


class CompletedTxn(NamedTuple):
    """A transaction that a marker at `last_offset` has ended.

    `last_stable_offset` is what the transaction index stores: the first offset of the next open transaction, or else
    the offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


_new_completed: Callable[[tuple[int, int, int, bool, int]], CompletedTxn] = partial(tuple.__new__, CompletedTxn)


class ProducerStateManager:
    """The producers of one partition.

    Attributes:
        producers: by producer id.
        expiration_ms: `producer.id.expiration.ms`.
        open_transactions: the producer id of each open transaction by its first offset, ascending.
        unreplicated: the offset of the marker of each ended one that the high watermark has not passed, likewise.
        first_unstable_offset: the first offset of the earliest transaction that is open, or whose marker the high
            watermark has not passed; None if there is none.
        snapshots: the files in the partition's folder from which the producers are restored.
        verifications: producers whose transaction is being verified with the coordinator.
    """

    def __init__(self, fs: FileSystem, folder: str, name: str, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self._name = name
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerStateEntry] = {}
        self.verifications = Verifications()
        self.open_transactions: dict[int, int] = {}
        self.unreplicated: dict[int, int] = {}
        self.first_unstable_offset: int | None = None
        self.snapshots = SnapshotFiles(fs, folder)

    # -- appending

    def check(self, batch: Buffer, header: BatchHeader, origin: AppendOrigin) -> ProducerUpdate | Duplicate:
        """Whether a batch with a producer id may be appended now; changes nothing.

        `batch` is read only if it is a control batch. For a duplicate of one of the last five batches (only from
        clients), returns the original's place, else what to pass to `publish`.

        Raises InvalidProducerEpoch, OutOfOrderSequence, InvalidTxnState, TransactionCoordinatorFenced, InvalidRecord.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = ProducerStateEntry(header.producer_id)
        if header.attributes & CONTROL_FLAG:
            return self._check_marker(batch, header, entry, origin)
        if origin is AppendOrigin.CLIENT:
            sequence = header.base_sequence
            batches = entry.batches
            if header.producer_epoch == entry.producer_epoch:
                follows = _follows(batches[-1].last_sequence if batches else NO_SEQUENCE, sequence)
                if not follows or header.producer_id in self.verifications:
                    original = entry.find(sequence, header.last_sequence)
                    if original is not None:
                        return Duplicate(original.first_offset, original.last_offset, original.timestamp)
                    self._check_sequence(entry, header)
            else:
                self._check_epoch(entry, header, origin)
                self._check_sequence(entry, header)
        elif header.producer_epoch < entry.producer_epoch:
            self._check_epoch(entry, header, origin)
        if entry.txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTxnState(
                f"Producer {header.producer_id} has an open transaction in {self._name} and wrote outside of it."
            )
        return _new_update((entry, header, None, -1))

    def _check_epoch(self, entry: ProducerStateEntry, header: BatchHeader, origin: AppendOrigin) -> None:
        if header.producer_epoch >= entry.producer_epoch:
            return
        text = (
            f"Epoch {header.producer_epoch} of producer {entry.producer_id} in {self._name} is older than the last "
            f"one seen, {entry.producer_epoch}."
        )
        if origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(text)
        logger.warning("replicated batch of an old producer epoch", error=text)

    def _check_sequence(self, entry: ProducerStateEntry, header: BatchHeader) -> None:
        """Check that the batch is the next one. A producer without an epoch (never seen, or expired) may start
        anywhere, a new epoch at 0.

        An earlier sequence that was tried, but refused for a while, must come first.
        """
        if self.verifications.is_out_of_order(header.producer_id, header.base_sequence, bool(entry.batches)):
            raise OutOfOrderSequence(
                f"Producer {entry.producer_id} sent sequence {header.base_sequence} to {self._name}, where an earlier "
                "one is being verified."
            )
        if entry.producer_epoch == NO_EPOCH:
            return
        if header.producer_epoch != entry.producer_epoch:
            if header.base_sequence == 0:
                return
            raise OutOfOrderSequence(
                f"Producer {entry.producer_id} starts epoch {header.producer_epoch} in {self._name} at sequence "
                f"{header.base_sequence}, not 0."
            )
        if not _follows(entry.last_sequence, header.base_sequence):
            raise OutOfOrderSequence(
                f"Producer {entry.producer_id} sent sequence {header.base_sequence} to {self._name} after "
                f"{entry.last_sequence}."
            )

    def _check_marker(
        self, batch: Buffer, header: BatchHeader, entry: ProducerStateEntry, origin: AppendOrigin
    ) -> ProducerUpdate:
        try:
            parsed = read_control_batch(batch, header)
        except ValueError as error:
            raise InvalidRecord(f"A control batch in {self._name} holds no transaction marker: {error}") from error
        if parsed is None:
            # Compaction has removed the whole transaction, its marker included.
            return ProducerUpdate(entry, header, None, -1)
        marker, timestamp = parsed
        if marker is None:
            raise InvalidRecord(f"A control batch of a producer in {self._name} does not end a transaction.")
        self._check_epoch(entry, header, origin)
        if marker.coordinator_epoch < entry.coordinator_epoch and origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"A coordinator of epoch {marker.coordinator_epoch} ends a transaction of producer "
                f"{entry.producer_id} in {self._name}, though epoch {entry.coordinator_epoch} is known."
            )
        return _new_update((entry, header, marker, timestamp))

    def publish(self, update: ProducerUpdate, base_offset: int) -> CompletedTxn | None:
        """Note a batch that is now in the log at `base_offset`; return the transaction that it ends, if any."""
        entry, header, marker, marker_timestamp = update
        if header.attributes & CONTROL_FLAG:
            if marker is None:
                return None
            return self._publish_marker(entry, header.producer_epoch, marker, base_offset, marker_timestamp)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        if entry.producer_epoch != header.producer_epoch:
            entry.set_epoch(header.producer_epoch)
            self.producers[entry.producer_id] = entry
        elif not entry.batches:
            self.producers[entry.producer_id] = entry
        last_sequence = sequence if sequence == NO_SEQUENCE else advance_sequence(sequence, delta)
        timestamp = header.max_timestamp
        entry.batches.append(new_batch_metadata((sequence, last_sequence, base_offset, base_offset + delta, timestamp)))
        entry.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_FLAG:
            self.verifications.end(entry.producer_id)
            if entry.txn_first_offset == NO_OFFSET:
                entry.txn_first_offset = base_offset
                self.open_transactions[base_offset] = entry.producer_id
                if self.first_unstable_offset is None:
                    self.first_unstable_offset = base_offset
        return None

    def _publish_marker(
        self, entry: ProducerStateEntry, epoch: int, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        first_offset = entry.txn_first_offset
        entry.set_epoch(epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.txn_first_offset = NO_OFFSET
        self.producers[entry.producer_id] = entry
        self.verifications.end_by_marker(entry.producer_id, epoch)
        if first_offset == NO_OFFSET:
            return None
        del self.open_transactions[first_offset]
        self.unreplicated[first_offset] = offset
        next_open = next(iter(self.open_transactions), offset + 1)
        aborted = marker.type is ControlRecordType.ABORT
        return _new_completed((entry.producer_id, first_offset, offset, aborted, next_open))

    def replay(self, header: BatchHeader, batch: Buffer) -> CompletedTxn | None:
        """Note a batch found in the log while loading; `batch` is read only if it is a control batch.

        Batches without a producer id change nothing. Raises InvalidTxnState and InvalidRecord for what no leader would
        append.
        """
        if not header.has_producer_id:
            return None
        update = self.check(batch, header, AppendOrigin.REPLICATION)
        if isinstance(update, Duplicate):
            raise AssertionError("replication knows no duplicates")
        return self.publish(update, header.base_offset)

    # -- transactions

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker is below the high watermark no longer hold back the last stable offset."""
        ended = self.unreplicated
        if not ended:
            return
        if next(reversed(ended.values())) < high_watermark:  # the last one; markers come in the log's order
            ended.clear()
        else:
            self.unreplicated = {first: marker for first, marker in ended.items() if marker >= high_watermark}
        self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        self.first_unstable_offset = next(iter(self.open_transactions), None)
        if self.unreplicated:
            ended = min(self.unreplicated)
            if self.first_unstable_offset is None or ended < self.first_unstable_offset:
                self.first_unstable_offset = ended

    # -- expiry, truncation

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers idle for `expiration_ms`, except those with an open transaction."""
        self.producers = {
            producer_id: entry
            for producer_id, entry in self.producers.items()
            if not self._is_expired(entry.txn_first_offset, entry.last_timestamp, now_ms)
        }

    def _is_expired(self, txn_first_offset: int, last_timestamp: int, now_ms: int) -> bool:
        return txn_first_offset == NO_OFFSET and now_ms - last_timestamp >= self.expiration_ms

    def load(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> int:
        """Start over from the newest good snapshot within the log; return the offset from which to `replay`.

        Snapshots outside the log, and corrupt ones, are deleted. Raises OSError.
        Kafka also deletes the snapshot at the log's start, and so forgets the producers of a log without records.
        """
        snapshots = self.snapshots
        for offset in snapshots.offsets:
            if not log_start_offset <= offset <= log_end_offset:
                snapshots.delete(offset)
        self.clear()
        while (newest := snapshots.newest) is not None:
            try:
                entries = snapshots.read(newest)
            except CorruptSnapshotError as error:
                damage.repaired(snapshots.path(newest), error, "removed: an older one and the log are read instead")
                snapshots.delete(newest)
                continue
            self._restore(entries, now_ms)
            return newest
        return log_start_offset

    def _restore(self, entries: list[SnapshotEntry], now_ms: int) -> None:
        rows: dict[int, list[SnapshotEntry]] = {}
        for row in entries:
            rows.setdefault(row.producer_id, []).append(row)
        for of_producer in sorted(rows.values(), key=lambda some: some[-1].txn_first_offset):
            last = of_producer[-1]
            if self._is_expired(last.txn_first_offset, last.timestamp, now_ms):
                continue
            entry = ProducerStateEntry.restored(of_producer)
            if entry.txn_first_offset != NO_OFFSET:
                self.open_transactions[entry.txn_first_offset] = entry.producer_id
            self.producers[entry.producer_id] = entry
        self._find_first_unstable()

    def take(self, restored: ProducerStateManager) -> None:
        """Go on with what was restored from the snapshots, some of which may be deleted."""
        self.producers, self.open_transactions = restored.producers, restored.open_transactions
        self.unreplicated, self.first_unstable_offset = restored.unreplicated, restored.first_unstable_offset
        for offset in set(self.snapshots.offsets) - set(restored.snapshots.offsets):
            self.snapshots.forget(offset)

    def clear(self) -> None:
        """Forget all producers and transactions; snapshot files stay."""
        self.producers = {}
        self.open_transactions = {}
        self.unreplicated = {}
        self.first_unstable_offset = None

    def take_snapshot(self, offset: int) -> str | None:
        """Write the state, which must be that at `offset`, unless a snapshot at this or a later offset exists.

        Nothing is written for offset 0, below which there are no records. Returns the path. Raises OSError.
        """
        if offset <= (self.snapshots.newest or 0):
            return None
        return self.snapshots.write(offset, self.rows())

    def rows(self) -> Iterator[SnapshotEntry]:
        """The state as a snapshot has it."""
        for producer_id in sorted(self.producers):
            yield from self.producers[producer_id].rows()


def _follows(last: int, sequence: int) -> bool:
    return sequence == last + 1 or (sequence == 0 and last == MAX_SEQUENCE)
