"""CreateTopics (KIP-4, KIP-464, KIP-525; Kafka's `ReplicationControlManager.createTopics`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.create_topics.v7.response import CreatableTopicResult
from kio.schema.errors import ErrorCode

from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import (
    MOST_RECORDS,
    ConfigSchema,
    Decision,
    MutationQuota,
    Surroundings,
    require_few_records,
    require_time_left,
)
from controller.placement import check_replicas, new_partition, place
from metadata import topic_names
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from metadata.snapshot import partition_record
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from metadata.topics import PartitionRegistration, TopicImage
from protocol.errors import (
    InvalidConfiguration,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    TopicExists,
)
from protocol.metadata.topics import ConfigRecord, TopicRecord

MOST_PARTITIONS = 10_000
"""The most partitions of one request (`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`)."""

BY_DEFAULT = -1
"""Leaves a partition count or replication factor to the configuration."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that can be created."""

    name: str
    id: UUID
    partitions: list[PartitionRegistration]
    configs: Mapping[str, str]

    def records(self) -> Iterator[Any]:
        yield TopicRecord(name=self.name, topic_id=self.id)
        for name, value in self.configs.items():
            yield ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=self.name, name=name, value=value)
        topic = TopicImage(self.name, self.id)
        for index, partition in enumerate(self.partitions):
            yield partition_record(topic, index, partition)


class TopicCreation:
    """The creation of the topics of one request, in steps: each that can be is created, whatever happens to the others.

    Raises Timeout, and PolicyViolation if there are too many partitions.
    """

    def __init__(self, request: CreateTopicsRequest, around: Surroundings, quota: MutationQuota) -> None:
        self._named = Counter(topic.name for topic in request.topics)
        allowed = [t for t in request.topics if self._named[t.name] == 1 and t.name != CLUSTER_METADATA_TOPIC_NAME]
        if allowed:
            require_time_left(request.timeout)
        _require_few_partitions(allowed, around.schema)
        self._validate_only = request.validate_only
        self._around = around
        self._quota = quota
        self._left = deque(allowed)
        self._results: list[CreatableTopicResult] = []
        at_most = sum(1 + _partition_count(topic, around.schema) + len(topic.configs) for topic in allowed)
        self._uncounted = deque(allowed if at_most > MOST_RECORDS else ())
        self._records = 0

    def step(self, image: MetadataImage) -> Decision[bool]:
        """Decide on some of the topics; the response is whether others are left.

        Raises PolicyViolation for too many records, before anything is changed: they are counted first, in steps too,
        if there may be too many.
        """
        if self._uncounted:
            self._count(image)
            return Decision([], True)
        records: list[Any] = []
        while self._left and len(records) < MOST_IN_A_STEP:
            wanted = self._left.popleft()
            try:
                topic = _plan(image, wanted, self._around)
                self._quota.charge(topic.name, len(topic.partitions))
            except KafkaError as error:
                self._results.append(failed(wanted.name, error))
            else:
                records += topic.records()
                self._results.append(_created(topic, self._around.schema))
        return Decision([] if self._validate_only else records, bool(self._left))

    def _count(self, image: MetadataImage) -> None:
        end = self._records + MOST_IN_A_STEP
        while self._uncounted and self._records < end:
            with suppress(KafkaError):
                self._records += sum(1 for _ in _plan(image, self._uncounted.popleft(), self._around).records())
        if not self._uncounted:
            require_few_records(self._records)

    @property
    def response(self) -> CreateTopicsResponse:
        """The answer, once nothing is left."""
        return CreateTopicsResponse(
            throttle_time=self._quota.throttle_time, topics=(*self._results, *_never_allowed(self._named))
        )


def decide(
    image: MetadataImage, request: CreateTopicsRequest, around: Surroundings, quota: MutationQuota
) -> Decision[CreateTopicsResponse]:
    """All steps of a creation at once, for few topics. Raises what the creation does."""
    creation = TopicCreation(request, around, quota)
    records: list[Any] = []
    is_unfinished = True
    while is_unfinished:
        step = creation.step(image)
        records += step.records
        is_unfinished = step.response
    return Decision(records, creation.response)


def _require_few_partitions(topics: Iterable[CreatableTopic], schema: ConfigSchema) -> None:
    """Raises PolicyViolation; nothing is planned before, so that no absurd number costs anything."""
    count = sum(_partition_count(topic, schema) for topic in topics)
    if count > MOST_PARTITIONS:
        raise PolicyViolation(
            f"The request would create {count} partitions; {MOST_PARTITIONS} are the most. Use several requests."
        )


def _partition_count(topic: CreatableTopic, schema: ConfigSchema) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return schema.partition_count if topic.num_partitions == BY_DEFAULT else max(topic.num_partitions, 0)


def _never_allowed(named: Counter[str]) -> Iterator[CreatableTopicResult]:
    for name, times in named.items():
        if times > 1:
            yield failed(name, InvalidRequest("Duplicate topic name."))
        elif name == CLUSTER_METADATA_TOPIC_NAME:
            yield failed(name, InvalidRequest(f"The internal topic {name} cannot be created."))


def _plan(image: MetadataImage, wanted: CreatableTopic, around: Surroundings) -> NewTopic:
    """Raises KafkaError for the first fault."""
    _check_name(image, wanted.name)
    configs = _configs(wanted)
    if configs:
        around.schema.check(ResourceType.TOPIC, wanted.name, configs)
    topic_id = around.new_id()
    partitions = _assigned(image, wanted) if wanted.assignments else _placed(image, wanted, around.schema, topic_id)
    return NewTopic(wanted.name, topic_id, partitions, configs)


def _check_name(image: MetadataImage, name: str) -> None:
    if image.topics.get(name) is not None:
        raise TopicExists(f"Topic '{name}' already exists.")
    existing = image.topics.colliding_with(name)
    if existing is not None:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {existing}")
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise InvalidTopic(reason)


def _configs(wanted: CreatableTopic) -> dict[str, str]:
    """The last value given for each name."""
    nulls = [config.name for config in wanted.configs if config.value is None]
    if nulls:
        raise InvalidConfiguration(f"These topic configs have no value: {', '.join(nulls)}")
    return {config.name: config.value for config in wanted.configs if config.value is not None}


def _assigned(image: MetadataImage, wanted: CreatableTopic) -> list[PartitionRegistration]:
    if wanted.replication_factor != BY_DEFAULT:
        raise InvalidRequest("With a manual partition assignment the replication factor must be -1.")
    if wanted.num_partitions != BY_DEFAULT:
        raise InvalidRequest("With a manual partition assignment the number of partitions must be -1.")
    by_index: dict[int, PartitionRegistration] = {}
    for assignment in wanted.assignments:
        index = assignment.partition_index
        if index in by_index:
            raise InvalidReplicaAssignment(f"The assignment names partition {index} more than once.")
        check_replicas(image.cluster, assignment.broker_ids)
        if len(assignment.broker_ids) != len(wanted.assignments[0].broker_ids):
            raise InvalidReplicaAssignment("All partitions of an assignment must have the same number of replicas.")
        by_index[index] = new_partition(image.cluster, assignment.broker_ids)
    if set(by_index) != set(range(len(by_index))):
        raise InvalidReplicaAssignment("The partitions of an assignment must be numbered from 0 without gaps.")
    return [by_index[index] for index in range(len(by_index))]


def _placed(
    image: MetadataImage, wanted: CreatableTopic, schema: ConfigSchema, topic_id: UUID
) -> list[PartitionRegistration]:
    count, factor = wanted.num_partitions, wanted.replication_factor
    if factor < BY_DEFAULT or factor == 0:
        raise InvalidReplicationFactor("The replication factor must be larger than 0, or -1 for the default.")
    if count < BY_DEFAULT or count == 0:
        raise InvalidPartitions("The number of partitions must be larger than 0, or -1 for the default.")
    return place(
        image.cluster,
        schema.partition_count if count == BY_DEFAULT else count,
        schema.replication_factor if factor == BY_DEFAULT else factor,
        seed=topic_id.int,  # random, so that leaders of small topics spread
    )


def _created(topic: NewTopic, schema: ConfigSchema) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=schema.effective_topic_configs(topic.configs),
    )


def failed(name: str, error: KafkaError) -> CreatableTopicResult:
    """The result of a topic that is not created."""
    return CreatableTopicResult(
        name=name, topic_id=None, error_code=error.code, error_message=error.explicit_message, configs=()
    )
