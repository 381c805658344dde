"""A transactional id's state as a value, and the pure transitions from one to the next (TransactionMetadata).

The states, and how each is left (`PREDECESSORS` is the table; Kafka's TransactionState):

- Empty: a producer but no transaction. Left when partitions are added, by an abort (transactions V2), or by expiry.
- Ongoing: partitions were added. Left by EndTxn, or by a fence: InitProducerId, or the transaction's timeout.
- PrepareEpochFence: the old producer is fenced. Left at once for PrepareAbort, so it is never in the log.
- PrepareCommit, PrepareAbort: decided; markers are being written. Left with the last marker.
- CompleteCommit, CompleteAbort: every marker is written. Left like Empty, or for Empty by InitProducerId.
- Dead: expired; its record is a tombstone.

How it works: each method (`prepared`, `completed`, ...) gives a new value, and checks that its state may follow the
present one. With clients before transactions V2 the producer epoch stays the same from transaction to transaction. With
transactions V2 `prepared` raises it by one, so that a late append of the old transaction is fenced; when the epochs of
the producer id are used up, `completed` goes on with `next_producer_id` and epoch 0. The last epoch of an id is the
coordinator's own, for fencing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from coordinator.runtime.outcome import ProducerEpoch
from protocol.coordinator_records.transaction_records import TransactionLogValue, new_log_value
from protocol.records.batch import NO_PRODUCER_ID, NO_TIMESTAMP
from protocol.topic_partition import PartitionKey, by_topic


class TransactionState(IntEnum):
    """Kafka's TransactionState, numbered as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name, as DescribeTransactions and ListTransactions spell it."""
        return _WIRE_NAMES[self]


_WIRE_NAMES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
BY_WIRE_NAME: Mapping[str, TransactionState] = MappingProxyType({name: state for state, name in _WIRE_NAMES.items()})

_S = TransactionState
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open: a new one may start, and the id may expire."""

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided; markers are being written."""

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        _S.EMPTY: AT_REST,
        _S.ONGOING: AT_REST | {_S.ONGOING},
        _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
        _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
        _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
        _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
        _S.DEAD: AT_REST,
        _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
    }
)
"""The states from which each may be entered."""


NO_EPOCH = -1
LARGEST_EPOCH = 2**15 - 1
LAST_EPOCH_FOR_CLIENTS = LARGEST_EPOCH - 1
"""The last epoch that a producer gets: the next one is reserved, so that the coordinator can always fence."""

TV_0 = 0
"""Kafka's `TransactionVersion` of clients before transactions V2: the epoch stays the same across transactions."""
TV_1 = 1
"""As before, with a log whose records have tagged fields (KIP-915)."""
TV_2 = 2
"""Transactions V2 (KIP-890): the epoch is bumped at every end of a transaction."""

NO_PARTITIONS: frozenset[PartitionKey] = frozenset()


class IllegalTransitionError(RuntimeError):
    """A transition that is not allowed: a bug."""


class TransactionMetadata(NamedTuple):
    """One transactional id. Times are wall-clock milliseconds, -1 for none.

    `next_producer_id`: if the epochs of a prepared transaction's producer id are used up, the id that follows
    (KIP-890). `last_producer_epoch` is the epoch before the last bump, with which its producer may ask again (KIP-360).
    It is not in the log: as in Kafka, it is forgotten with the coordinator.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[PartitionKey]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = TV_0
    last_producer_epoch: int = NO_EPOCH

    @property
    def epochs_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_FOR_CLIENTS

    @property
    def committed(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def records_epoch(self) -> int:
        """The epoch of the records of an open or committed transaction; transactions V2 end it with a bump."""
        bumped = self.state is not TransactionState.ONGOING and self.client_version >= TV_2
        return self.producer_epoch - 1 if bumped else self.producer_epoch

    def to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """The same id in another state, with `changes` of other fields. Raises IllegalTransitionError."""
        if self.state not in PREDECESSORS[state]:
            raise IllegalTransitionError(f"from {self.state.name} to {state.name}: {self}")
        return self._replace(state=state, **changes)

    # -- transitions

    def with_producer(
        self, producer_id: int, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """The id after InitProducerId: a producer without a transaction."""
        return self.to(
            TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            previous_producer_id=self._other_than(producer_id),
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    def with_partitions(self, added: Iterable[PartitionKey], client_version: int, now_ms: int) -> TransactionMetadata:
        """The id with a transaction that starts or grows."""
        return self.to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            previous_producer_id=NO_PRODUCER_ID,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, client_version: int) -> TransactionMetadata:
        """The id with the running producer's epoch ended; its transaction will be aborted."""
        return self.to(
            TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch if client_version >= TV_2 else NO_EPOCH,
            client_version=client_version,
        )

    def prepared(
        self, commit: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """The id with its outcome decided; transactions V2 bump the epoch, unless a fence has done so already."""
        bump = client_version >= TV_2 and self.state is not TransactionState.PREPARE_EPOCH_FENCE
        return self.to(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1 if bump else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state in AT_REST else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    @property
    def next_producer(self) -> ProducerEpoch:
        """The producer after a prepared transaction; the next id if the epochs of the current one are used up."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return ProducerEpoch(self.producer_id, self.producer_epoch)
        return ProducerEpoch(self.next_producer_id, 0)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """The id with every marker written."""
        producer_id, producer_epoch = self.next_producer
        return self.to(
            TransactionState.COMPLETE_COMMIT if self.committed else TransactionState.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            previous_producer_id=self._other_than(producer_id),
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTITIONS,
            last_update_ms=now_ms,
        )

    def with_last_epoch(self, last_producer_epoch: int) -> TransactionMetadata:
        """The id with `last_producer_epoch`, which the log does not hold."""
        return _new_metadata((*self[:-1], last_producer_epoch))

    def _other_than(self, producer_id: int) -> int:
        return NO_PRODUCER_ID if self.producer_id == producer_id else self.producer_id

    # -- the log

    def to_log(self) -> TransactionLogValue:
        producer_id, producer_epoch, timeout_ms, state, partitions, *rest, _last_producer_epoch = self
        grouped = None if state is TransactionState.EMPTY else _grouped(partitions)
        return new_log_value((producer_id, producer_epoch, timeout_ms, int(state), grouped, *rest))

    @staticmethod
    def from_log(value: TransactionLogValue) -> TransactionMetadata:
        """Raises ValueError for an unknown state."""
        producer_id, producer_epoch, timeout_ms, status, grouped, *rest = value
        state = _STATES.get(status)
        if state is None:
            raise ValueError(f"a transaction's state is {status}")
        partitions = frozenset([(topic, index) for topic, indexes in grouped or () for index in indexes])
        return _new_metadata((producer_id, producer_epoch, timeout_ms, state, partitions, *rest, NO_EPOCH))


# Without a Python-level call: one per record of a transaction, and the log has its fields in this order.
_new_metadata: Callable[[tuple[Any, ...]], TransactionMetadata] = partial(tuple.__new__, TransactionMetadata)

_STATES = {int(state): state for state in TransactionState}


def _grouped(partitions: frozenset[PartitionKey]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if len(partitions) < 2:  # most transactions, faster
        return tuple([(topic, (index,)) for topic, index in partitions])
    return tuple([(topic, tuple(indexes)) for topic, indexes in by_topic(sorted(partitions)).items()])
