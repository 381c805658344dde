"""The record of `__transaction_state`, in all of Kafka's versions (TransactionLogKey, TransactionLogValue).

Kafka 4.4 writes value version 1, the flexible one, from transaction.version 1 on, and version 0 below, which has no
place for the tagged fields. Tools that read the records themselves know only version 0 (Flink's KafkaTransactionLog).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from ..declared import Int8, Int16, Int32, Int64, Placed, Stored, String, plain
from ..primitives import INT16
from ..records.batch import NO_PRODUCER_ID, NO_TIMESTAMP
from .record_schema import RecordSchema, string

TRANSACTION_LOG_ID = 0
_KEY_START = INT16.pack(TRANSACTION_LOG_ID)


class _TransactionLogKey(NamedTuple):
    transactional_id: String


@plain
class _Topic(NamedTuple):
    topic: String
    partitions: tuple[Int32, ...]


class TransactionLogValue(NamedTuple):
    """One transactional id.

    `status` is the state's number; `partitions` are (topic, indexes), None in states that have none. Times are
    milliseconds; -1 stands for no time and no producer id. `client_version` is the transaction.version that its
    client used.
    """

    producer_id: Int64
    producer_epoch: Int16
    timeout_ms: Int32
    status: Int8
    partitions: Annotated[tuple[tuple[str, tuple[int, ...]], ...] | None, Stored(tuple[_Topic, ...] | None)]
    last_update_ms: Int64
    start_ms: Int64 = NO_TIMESTAMP
    previous_producer_id: Annotated[Int64, Placed(tag=0)] = NO_PRODUCER_ID
    next_producer_id: Annotated[Int64, Placed(tag=1)] = NO_PRODUCER_ID
    client_version: Annotated[Int16, Placed(tag=2)] = 0


new_log_value: Callable[[tuple[Any, ...]], TransactionLogValue] = partial(tuple.__new__, TransactionLogValue)
"""Makes one from all its fields, without a Python-level call."""


def _schema(written: int) -> RecordSchema[str, TransactionLogValue]:
    return RecordSchema(
        "TransactionLog",
        (TRANSACTION_LOG_ID,),
        Stored(_TransactionLogKey, itemgetter(0)),
        TransactionLogValue,
        highest=1,
        flexible=1,
        written=written,
        encode_key=lambda transactional_id: _KEY_START + string(transactional_id),
    )


TRANSACTION_LOG = _schema(1)
TRANSACTION_LOG_0 = _schema(0)
"""The record as it is written below transaction.version 1."""
