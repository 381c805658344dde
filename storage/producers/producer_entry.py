"""One producer as a partition's log knows it (Kafka's `ProducerStateEntry`).

`Verifications` are of producers whose first append of a transaction is being verified (KIP-890; Kafka's
`VerificationStateEntry`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from protocol.records.batch import MAX_SEQUENCE, NO_SEQUENCE
from storage.producers.snapshot_files import SnapshotEntry

BATCHES_KEPT = 5
NO_EPOCH = -1
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """One of a producer's last batches: its range of sequence numbers, of offsets, its largest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


# Without a Python-level call: one per batch of a producer.
new_batch_metadata: Callable[[tuple[int, int, int, int, int]], BatchMetadata] = partial(tuple.__new__, BatchMetadata)


class ProducerStateEntry:
    """One producer. `batches` are its last five in the current epoch, oldest first; -1 stands for none."""

    __slots__ = ("batches", "coordinator_epoch", "last_timestamp", "producer_epoch", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int, producer_epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record of this epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The one of the last batches with exactly this range of sequence numbers; None if there is none."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def set_epoch(self, producer_epoch: int) -> None:
        """Start a new epoch, which has no batches yet."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def saved(self) -> SnapshotEntry:
        """The producer's row in Kafka's snapshots, which hold only the last batch."""
        last = self.batches[-1] if self.batches else BatchMetadata(-1, -1, -1, -1, -1)
        return SnapshotEntry(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            last_sequence=last.last_sequence,
            last_offset=last.last_offset,
            offset_delta=last.last_offset - last.first_offset,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            txn_first_offset=self.txn_first_offset,
        )

    def rows(self) -> list[SnapshotEntry]:
        """`saved`, after a row for each earlier batch.

        A snapshot with one row per producer loses the batches before the last, and a producer that sends those again
        after a crash would get OUT_OF_ORDER_SEQUENCE_NUMBER. For Kafka, the last of a producer's rows counts.
        """
        saved = self.saved()
        earlier = [
            saved._replace(
                last_sequence=batch.last_sequence,
                last_offset=batch.last_offset,
                offset_delta=batch.last_offset - batch.first_offset,
                timestamp=batch.timestamp,
                txn_first_offset=NO_OFFSET,
            )
            for batch in list(self.batches)[:-1]
        ]
        return [*earlier, saved]

    @classmethod
    def restored(cls, rows: list[SnapshotEntry]) -> ProducerStateEntry:
        """The producer, from its rows of a snapshot in their order there."""
        saved = rows[-1]
        entry = cls(saved.producer_id, saved.producer_epoch)
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.last_timestamp = saved.timestamp
        entry.txn_first_offset = max(saved.txn_first_offset, NO_OFFSET)
        entry.batches.extend(_batch_of(row) for row in rows if row.last_offset >= 0)
        return entry


def _batch_of(saved: SnapshotEntry) -> BatchMetadata:
    has_sequence = saved.last_sequence != NO_SEQUENCE
    return BatchMetadata(
        (saved.last_sequence - saved.offset_delta) % (MAX_SEQUENCE + 1) if has_sequence else NO_SEQUENCE,
        saved.last_sequence,
        saved.last_offset - saved.offset_delta,
        saved.last_offset,
        saved.timestamp,
    )


KEPT = 1000
"""Producers kept per partition. Those never verified would pile up, so beyond this number the oldest are forgotten."""


class Verifications:
    """The lowest sequence number that each producer has tried since the partition last got a transactional batch of it.

    An append may be refused for a while, as when the coordinator is loading. Until it is retried, a later one must not
    overtake it: in a log that knows nothing of the producer, no sequence number is out of order.
    """

    __slots__ = ("_begun", "_tried")

    def __init__(self) -> None:
        self._begun = 0
        self._tried: dict[int, tuple[int, int, bool, int]] = {}  # by producer id; see `begin`

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._tried

    def begin(self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool) -> int:
        """Note an append that waits for verification, and return its guard; a newer epoch starts afresh.

        `supports_epoch_bump`: the append uses transactions V2. As in Kafka, the first attempt's value counts.
        """
        tried = self._tried
        known = tried.get(producer_id)
        if known is None:
            if len(tried) >= KEPT:
                del tried[next(iter(tried))]
            self._begun = guard = self._begun + 1
            tried[producer_id] = (epoch, sequence, supports_epoch_bump, guard)
            return guard
        guard = known[3]
        if epoch > known[0] or (epoch == known[0] and sequence < known[1]):
            tried[producer_id] = (epoch, sequence, known[2], guard)
        return guard

    def is_guarded(self, producer_id: int, guard: int) -> bool:
        """Whether no marker of the producer has come since its append got this guard (Kafka's VerificationGuard).

        What the coordinator said of the transaction meanwhile is about the transaction that goes on here.
        """
        tried = self._tried.get(producer_id)
        return tried is not None and tried[3] == guard

    def is_out_of_order(self, producer_id: int, sequence: int, has_batches: bool) -> bool:
        """Whether an earlier batch was tried and must come first; with transactions V2, also that of sequence 0.

        `has_batches`: the log has batches of the producer.
        """
        tried = self._tried.get(producer_id)
        if tried is None:
            return False
        _, lowest, supports_epoch_bump, _ = tried
        return sequence > lowest or (supports_epoch_bump and sequence != 0 and not has_batches)

    def end(self, producer_id: int) -> None:
        """Forget the producer's attempts: a transactional batch of it is in the log."""
        self._tried.pop(producer_id, None)

    def end_by_marker(self, producer_id: int, epoch: int) -> None:
        """Forget the producer's attempts: a marker of it is in the log.

        As in Kafka, an append of transactions V2 with the marker's own epoch still counts: there the marker carries the
        next transaction's epoch, so that the append belongs to the transaction that follows.
        """
        tried = self._tried.get(producer_id)
        if tried is not None and not (tried[2] and tried[0] == epoch):
            del self._tried[producer_id]
