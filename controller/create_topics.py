"""CreateTopics (KIP-4, KIP-464, KIP-525; Kafka's `ReplicationControlManager.createTopics`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.create_topics.v7.response import CreatableTopicResult
from kio.schema.errors import ErrorCode

from controller.decision import (
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


def decide(
    image: MetadataImage, request: CreateTopicsRequest, around: Surroundings, quota: MutationQuota
) -> Decision[CreateTopicsResponse]:
    """Topics that can be created are, whatever happens to the others of the request.

    Raises Timeout, and PolicyViolation if there are too many partitions or records.
    """
    named = Counter(topic.name for topic in request.topics)
    allowed = [t for t in request.topics if named[t.name] == 1 and t.name != CLUSTER_METADATA_TOPIC_NAME]
    if allowed:
        require_time_left(request.timeout)
    _require_few_partitions(allowed, around.schema)
    results: list[CreatableTopicResult] = []
    created: list[NewTopic] = []
    for wanted in allowed:
        try:
            topic = _plan(image, wanted, around)
            quota.charge(topic.name, len(topic.partitions))
        except KafkaError as error:
            results.append(failed(wanted.name, error))
        else:
            created.append(topic)
            results.append(_created(topic, around.schema))
    results += _never_allowed(named)
    records = [record for topic in created for record in topic.records()]
    require_few_records(len(records))
    response = CreateTopicsResponse(throttle_time=quota.throttle_time, topics=tuple(results))
    return Decision([] if request.validate_only else records, response)


def _require_few_partitions(topics: Iterable[CreatableTopic], schema: ConfigSchema) -> None:
    """Raises PolicyViolation; nothing is planned before, so that no absurd number costs anything."""
    count = 0
    for topic in topics:
        if topic.assignments:
            count += len(topic.assignments)
        else:
            count += schema.partition_count if topic.num_partitions == BY_DEFAULT else max(topic.num_partitions, 0)
    if count > MOST_PARTITIONS:
        raise PolicyViolation(
            f"The request would create {count} partitions; {MOST_PARTITIONS} are the most. Use several requests."
        )


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
