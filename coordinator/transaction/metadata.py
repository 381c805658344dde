"""A transactional id's state as a value, and the pure transitions from one to the next (TransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator.transaction.states import AT_REST, PREDECESSORS, TransactionState
from protocol.internal.transaction_records import NO_PRODUCER_ID, NO_TIMESTAMP, TransactionLogValue

TopicPartition = tuple[str, int]

NO_EPOCH = -1
LARGEST_EPOCH = 2**15 - 1
LAST_EPOCH_FOR_CLIENTS = LARGEST_EPOCH - 1
"""The epoch after it is kept for the coordinator, so that it can always fence."""

V1 = 0
"""Clients before transactions V2: the epoch stays over transactions."""
V2 = 2
"""KIP-890: the epoch is bumped at every end of a transaction."""

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class IllegalTransition(RuntimeError):
    """A state was to be entered from one that it cannot follow: a bug."""


class TransactionMetadata(NamedTuple):
    """One transactional id. Times are wall-clock milliseconds, -1 for none.

    ``next_producer_id``: with a prepared transaction whose epochs are used up, the id that follows (KIP-890).
    ``last_producer_epoch``, the epoch before the last bump that its producer may ask for again (KIP-360), is not in
    the log: as in Kafka, it is forgotten with the coordinator.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = V1
    last_producer_epoch: int = NO_EPOCH

    @property
    def epochs_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH_FOR_CLIENTS

    @property
    def committed(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    def to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        """This with another state. Raises IllegalTransition."""
        if self.state not in PREDECESSORS[state]:
            raise IllegalTransition(f"from {self.state.name} to {state.name}: {self}")
        return self._replace(state=state, **changes)

    # -- transitions

    def with_producer(
        self, producer_id: int, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """InitProducerId's end: a producer that has no transaction."""
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
            client_version=V1,
        )

    def with_partitions(self, added: Iterable[TopicPartition], client_version: int, now_ms: int) -> TransactionMetadata:
        """A transaction starts or grows."""
        return self.to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            previous_producer_id=NO_PRODUCER_ID,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, client_version: int) -> TransactionMetadata:
        """The running producer's epoch is over, and its transaction is to be aborted."""
        return self.to(
            TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch if client_version >= V2 else NO_EPOCH,
            client_version=client_version,
        )

    def prepared(
        self, commit: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """The outcome is decided; with V2 the epoch is bumped, where a fence has not done it already."""
        bump = client_version >= V2 and self.state is not TransactionState.PREPARE_EPOCH_FENCE
        return self.to(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1 if bump else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state in AT_REST else self.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> TransactionMetadata:
        """Every marker is written; the id that follows one whose epochs are used up takes its place."""
        rotate = self.next_producer_id != NO_PRODUCER_ID
        return self.to(
            TransactionState.COMPLETE_COMMIT if self.committed else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotate else self.producer_id,
            producer_epoch=0 if rotate else self.producer_epoch,
            previous_producer_id=self.producer_id if rotate else NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTITIONS,
            last_update_ms=now_ms,
        )

    def _other_than(self, producer_id: int) -> int:
        return NO_PRODUCER_ID if self.producer_id == producer_id else self.producer_id

    # -- the log

    def to_log(self) -> TransactionLogValue:
        return TransactionLogValue(
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            int(self.state),
            None if self.state is TransactionState.EMPTY else _by_topic(self.partitions),
            self.last_update_ms,
            self.start_ms,
            self.previous_producer_id,
            self.next_producer_id,
            self.client_version,
        )

    @classmethod
    def from_log(cls, value: TransactionLogValue) -> TransactionMetadata:
        """Raises ValueError for a state that is not known."""
        state = _STATES.get(value.status)
        if state is None:
            raise ValueError(f"a transaction's state is {value.status}")
        return cls(
            value.producer_id,
            value.producer_epoch,
            value.timeout_ms,
            state,
            frozenset([(topic, index) for topic, indexes in value.partitions or () for index in indexes]),
            value.last_update_ms,
            value.start_ms,
            value.previous_producer_id,
            value.next_producer_id,
            value.client_version,
        )


_STATES = {int(state): state for state in TransactionState}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, both ascending."""
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple([(topic, tuple(indexes)) for topic, indexes in by_topic(partitions).items()])
