"""The result of an operation: records to write, an answer, and what to do besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from protocol.errors import KafkaError
from protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from coordinator.runtime.replies import Waiter
    from protocol.coordinator_records.record_schema import RecordSchema

T = TypeVar("T")


Effects = Callable[[KafkaError | None], None]


class CoordinatorRecord(NamedTuple):
    """One record to write; `value` None is a tombstone."""

    schema: RecordSchema[Any, Any]
    key: Any
    value: Any


# Without a Python-level call, like everything made once per request.
new_record: Callable[[tuple[RecordSchema[Any, Any], Any, Any]], CoordinatorRecord] = partial(
    tuple.__new__, CoordinatorRecord
)


class ProducerEpoch(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


new_producer_epoch: Callable[[tuple[int, int]], ProducerEpoch] = partial(tuple.__new__, ProducerEpoch)

NO_PRODUCER = ProducerEpoch(NO_PRODUCER_ID, -1)


class Position(NamedTuple):
    """The offset of a replayed record, and the producer whose transaction it is part of (-1: none)."""

    offset: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1


new_position: Callable[[tuple[int, int, int]], Position] = partial(tuple.__new__, Position)


class Outcome(NamedTuple, Generic[T]):  # a third of a frozen dataclass's time to make
    """The decision of an operation; the package's docstring says what becomes of each part."""

    records: Sequence[CoordinatorRecord] = ()
    reply: T | Waiter[T] = None  # type: ignore[assignment]  # an operation that nobody waits for has no reply
    effects: Effects | None = None
    transaction: ProducerEpoch | None = None
    atomic: bool = True
