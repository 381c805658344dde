"""The appends of one Produce request to several partitions (Kafka's `ReplicaManager.appendRecords`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.replication.batch_checks import FIRST_VERSION_WITH_ZSTD, NOTHING, check_records
from broker.replication.waits import Unacknowledged
from metadata.topic_names import INTERNAL_TOPICS
from protocol.errors import (
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorage,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    RecordError,
    UnknownTopicId,
)
from protocol.produce_fetch.produce_messages import BatchIndexAndErrorMessage, PartitionProduceResponse
from protocol.records.batch import ATTRIBUTES_LOW_AT, TRANSACTIONAL_FLAG
from storage.append_types import AppendOrigin
from storage.log.record_checks import LargeBatchError

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from protocol.produce_fetch.parts import TopicKey
    from protocol.produce_fetch.produce_messages import PartitionRecords
    from protocol.topic_partition import PartitionKey
    from storage.append_types import AppendInfo

ALL_REPLICAS = -1
ACKS = (ALL_REPLICAS, 0, 1)
EXPECTED_FAILURES = (NotLeaderOrFollower, MessageTooLarge, RecordBatchTooLarge, CorruptMessage, KafkaStorage)
"""Errors that Kafka neither counts as failed produce requests nor sends with a log start offset."""

Refusals = Mapping["PartitionKey", KafkaError]
"""Partitions to which nothing may be appended, and why."""


class ProduceMetrics(Protocol):
    """Counts appends; see `broker.observe.metrics.Metrics`."""

    def produced(self, topic: str, messages: int, size: int) -> None: ...
    def produce_failed(self, topic: str) -> None: ...
    def request_error(self, api: str, error: ErrorCode) -> None: ...


class Large(NamedTuple):
    """A batch whose check is for a worker thread; `answer` is the partition's."""

    partition: Partition
    records: memoryview
    answer: PartitionProduceResponse


class RecordsAppend:
    """Appends a batch to each of a request's partitions; a partition's error is put into its answer.

    Attributes:
        topics: the answers, in the order of the request.
        large: batches that `append_large` has yet to append.
        misplaced: a partition is led by another node.
        unacknowledged: appends that are not committed yet, if the client wants to know about them.
    """

    __slots__ = (
        "_acks",
        "_all_replicas",
        "_metrics",
        "_now_ms",
        "_refusals",
        "_replicas",
        "_to_internal",
        "_version",
        "large",
        "misplaced",
        "topics",
        "unacknowledged",
    )

    def __init__(
        self,
        replicas: ReplicaManager,
        metrics: ProduceMetrics,
        acks: int,
        version: int,
        now_ms: int,
        refusals: Refusals,
        to_internal: bool,
    ) -> None:
        """`version` is that of the request; `to_internal` allows appends to internal topics."""
        self._replicas = replicas
        self._metrics = metrics
        self._acks = acks
        self._all_replicas = acks == ALL_REPLICAS
        self._version = version
        self._now_ms = now_ms
        self._refusals = refusals
        self._to_internal = to_internal
        self.topics: list[tuple[TopicKey, list[PartitionProduceResponse]]] = []
        self.large: list[Large] = []
        self.misplaced = False
        self.unacknowledged: list[Unacknowledged] = []

    def append(self, key: TopicKey, topic: str | None, entries: Sequence[PartitionRecords]) -> None:
        """Append to partitions of the topic that the client named by `key`; `topic` is None if no topic has that id."""
        answers: list[PartitionProduceResponse] = []
        self.topics.append((key, answers))
        for index, sent in entries:
            answer = PartitionProduceResponse(index)
            answers.append(answer)
            records = NOTHING if sent is None else sent  # Kafka does not answer None; here it is data without a batch
            partition = None if topic is None else self._replicas.at((topic, index))
            if partition is None:
                self._refuse_unknown(topic, index, answer)
                continue
            try:
                if self._refusals or self._acks not in ACKS:
                    self._check_refusals(partition, records, answer)
                self._append(partition, records, answer)
            except LargeBatchError:
                self.large.append(Large(partition, records, answer))
                continue
            except KafkaError as error:
                self.refuse(answer, error)
                continue
            if partition.gated and self._acks:
                self._wait(partition, answer)

    def _wait(self, partition: Partition, answer: PartitionProduceResponse) -> None:
        """Let the append be acknowledged later, unless acks=1 and it is durable enough where it is."""
        if self._all_replicas or partition.flush_gated:
            end = partition.log_end_offset
            self.unacknowledged.append(Unacknowledged(partition, end, answer, self._all_replicas, partition.led_since))

    def _refuse_unknown(self, topic: str | None, index: int, answer: PartitionProduceResponse) -> None:
        try:
            if topic is None:
                raise UnknownTopicId
            self._replicas.find(topic, index)
        except KafkaError as error:
            self.refuse(answer, error)

    def _check_refusals(self, partition: Partition, records: memoryview, answer: PartitionProduceResponse) -> None:
        check_records(self._version, records)
        refusal = self._refusals.get(partition.key)
        if refusal is not None:
            answer.error_message = refusal.explicit_message
            raise refusal
        if self._acks not in ACKS:
            raise InvalidRequiredAcks

    def _append(self, partition: Partition, records: memoryview, answer: PartitionProduceResponse) -> None:
        """Raises LargeBatchError for a batch that must be checked elsewhere."""
        if self._version < FIRST_VERSION_WITH_ZSTD:  # there Kafka looks at the data before anything else
            check_records(self._version, records)
        if partition.topic in INTERNAL_TOPICS and not self._to_internal:
            raise InvalidTopic(f"Cannot append to internal topic {partition.topic}")
        try:
            info = partition.append(
                records, AppendOrigin.CLIENT, self._now_ms, at_once=True, all_replicas=self._all_replicas
            )
        except KafkaError as error:
            self._note_failure(partition, answer, error)
            raise
        self._note(partition, answer, info, len(records))

    async def append_large(self, admission: Callable[[], Refusals | Awaitable[Refusals]] | None) -> None:
        """Append the large batches, one after the other: nothing is awaited between a check of state and the append.

        `admission` asks anew which transactional appends are refused; None if the request has no transaction.
        """
        for large in self.large:
            try:
                await self._append_large(large, admission)
            except KafkaError as error:
                self.refuse(large.answer, error)

    async def _append_large(self, large: Large, admission: Callable[[], Refusals | Awaitable[Refusals]] | None) -> None:
        partition, records, answer = large
        now_ms = self._replicas.wall_ms()
        try:
            validated = await self._replicas.large_batches.validate(partition, records, now_ms)
            if admission is not None and records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG:
                admitted = admission()  # the transaction may have ended meanwhile
                refusals = await admitted if isinstance(admitted, Awaitable) else admitted
                if partition.key in refusals:
                    answer.error_message = refusals[partition.key].explicit_message
                    raise refusals[partition.key]
            info = partition.append_validated(validated, now_ms, all_replicas=self._all_replicas)
        except KafkaError as error:
            self._note_failure(partition, answer, error)
            raise
        self._note(partition, answer, info, len(records))
        if partition.gated and self._acks:
            self._wait(partition, answer)

    def refuse(self, answer: PartitionProduceResponse, error: KafkaError) -> None:
        """Answer one partition with an error."""
        put_error(answer, error)
        self.misplaced |= isinstance(error, NotLeaderOrFollower)
        self._metrics.request_error("produce", error.code)

    def _note(self, partition: Partition, answer: PartitionProduceResponse, info: AppendInfo, size: int) -> None:
        """Answer an append; `size` is that of the batch as it came."""
        answer.base_offset = info.first_offset
        answer.log_append_time_ms = info.log_append_time
        answer.log_start_offset = info.log_start_offset
        self._metrics.produced(partition.topic, info.last_offset - info.first_offset + 1, size)

    def _note_failure(self, partition: Partition, answer: PartitionProduceResponse, error: KafkaError) -> None:
        seen_in_request = isinstance(error, RecordError) and error.in_request
        if not seen_in_request and not isinstance(error, EXPECTED_FAILURES):
            answer.log_start_offset = partition.log_start_offset
            self._metrics.produce_failed(partition.topic)


def put_error(answer: PartitionProduceResponse, error: KafkaError) -> None:
    """Put an error into a partition's answer, with what is wrong with which record, if that is known."""
    answer.error_code = int(error.code)
    if isinstance(error, RecordError):
        answer.error_message = error.message if error.on_wire else None
        answer.record_errors = tuple(BatchIndexAndErrorMessage(*each) for each in error.record_errors)
