"""A topic of a running cluster, read by a stock consumer; Odradek's, Apache Kafka's, or any other.

A consumer sees committed records alone. Where their offsets have gaps, these are read again with `read_uncommitted`:
what shows then was aborted. Offsets without any record are markers, or (where the topic is compacted) records that
compaction has removed; a broker does not tell which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from odradek_pipeline.audit.prints import Longs
from odradek_pipeline.audit.sides import AuditError, Extent, NotThereError, Part
from odradek_pipeline.datasource.columns import COLUMNS

TIMEOUT_S = 30.0
MESSAGES = 10_000
"""Messages taken at once. They are Python objects, so a part is this small however small they are."""
_OURS = {
    "group.id": "odradek-audit",  # required, and never used: nothing is committed, no group is joined
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "queued.max.messages.kbytes": "16384",
}


def broker_client(bootstrap: str, config: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a client, those of librdkafka in `config` over ours."""
    return {"bootstrap.servers": bootstrap, "log_level": "2", **config}


class BrokerTopic:
    """`config` has librdkafka's settings, for security above all."""

    def __init__(self, bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
        """Raises AuditError if the topic is not there, or no broker answers."""
        self.name = topic
        self.where = bootstrap
        self._client = broker_client(bootstrap, config)
        self._admin = AdminClient(self._client)
        self._consumers: dict[str, Consumer] = {}
        try:
            described = self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise AuditError(f"The brokers at {bootstrap} do not answer: {error}") from error
        if described.error is not None or not described.partitions:
            raise NotThereError(f"There is no topic {topic} at {bootstrap}: {described.error}")
        self._partitions = sorted(described.partitions)
        self._compacted = "compact" in self.setting("cleanup.policy")

    def setting(self, name: str) -> str:
        """A configuration of the topic. Raises AuditError."""
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        found = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
        return str(_answer(found)[name].value)

    def extents(self) -> Mapping[int, Extent]:
        found: list[dict[int, int]] = []
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            wanted = {TopicPartition(self.name, number): spec for number in self._partitions}
            futures = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
            )
            found.append({place.partition: _answer(future).offset for place, future in futures.items()})
        return {number: Extent(found[0][number], found[1][number]) for number in self._partitions}

    def damage(self) -> list[str]:
        return []

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        at = start
        for messages, reached in self._messages("read_committed", partition, start, end):
            offsets = np.array([message.offset() for message in messages], np.int64)
            aborted, markers = self._between(partition, at, offsets, min(reached, end))
            yield Part(_records(messages, offsets, columns), aborted, markers)
            at = min(reached, end)

    def _between(self, partition: int, start: int, offsets: Longs, end: int) -> tuple[Longs, Longs]:
        """The offsets of [start, end) that are not among `offsets`: of aborted records, and of markers."""
        absent = np.setdiff1d(np.arange(start, end, dtype=np.int64), offsets, assume_unique=True)
        if not len(absent):
            return absent, absent
        seen = [
            message.offset()
            for messages, _ in self._messages("read_uncommitted", partition, int(absent[0]), int(absent[-1]) + 1)
            for message in messages
        ]
        aborted = np.intersect1d(absent, np.array(seen, np.int64), assume_unique=True)
        rest = np.setdiff1d(absent, aborted, assume_unique=True)
        return aborted, rest[:0] if self._compacted else rest

    def _messages(self, isolation: str, partition: int, start: int, end: int) -> Iterator[tuple[list[Message], int]]:
        """(messages, the offset up to which they are complete), until that is `end`."""
        if start >= end:
            return
        consumer = self._consumers.get(isolation)
        if consumer is None:
            consumer = Consumer(self._client | _OURS | {"isolation.level": isolation})
            self._consumers[isolation] = consumer
        consumer.assign([TopicPartition(self.name, partition, start)])
        reached, ended = start, False
        while reached < end:
            messages: list[Message] = []
            taken = self._some(consumer)
            if not taken:
                why = f"its log ends there, and had gone to {end}: records were lost" if ended else "no records came"
                raise AuditError(f"{self.name}-{partition} at offset {reached}: {why} (waited for {TIMEOUT_S:.0f} s).")
            for message in taken:
                problem = message.error()
                offset = message.offset()
                if problem is not None:
                    if problem.code() != KafkaError._PARTITION_EOF:
                        raise AuditError(f"{self.name}-{partition} at offset {reached}: {problem}")
                    # A new leader's end may be behind for a moment, so an end that comes too early is waited for.
                    reached, ended = max(reached, offset or 0), True
                elif offset is not None and offset >= end:
                    reached = end
                elif offset is not None:
                    messages.append(message)
                    reached = offset + 1
            yield messages, reached
        consumer.unassign()

    @staticmethod
    def _some(consumer: Consumer) -> list[Message]:
        """What there is, up to `MESSAGES`; waits for the first alone, as `consume` would wait until it has all."""
        first = consumer.consume(1, timeout=TIMEOUT_S)
        return first + consumer.consume(MESSAGES - 1, timeout=0.05) if first and not first[0].error() else first


def _answer(future: Any) -> Any:
    try:
        return future.result(TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise AuditError(str(error)) from error


def _records(messages: list[Message], offsets: Longs, columns: Sequence[str]) -> pa.RecordBatch:
    arrays = [pa.array(offsets), *(_column(messages, name) for name in columns)]
    return pa.RecordBatch.from_arrays(arrays, names=["offset", *columns])


def _column(messages: list[Message], name: str) -> pa.Array:
    kind = COLUMNS[name].arrow
    match name:
        case "key":
            return pa.array([message.key() for message in messages], kind)
        case "value":
            return pa.array([message.value() for message in messages], kind)
        case "timestamp":
            return pa.array([_micros(message) for message in messages], pa.int64()).cast(kind)
    return pa.array([message.headers() or [] for message in messages], kind)


def _micros(message: Message) -> int | None:
    kind, millis = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else millis * 1000
