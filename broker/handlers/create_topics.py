"""CreateTopics 2-7 (KIP-4, KIP-195, KIP-464, KIP-525; Kafka's `ControllerApis.createTopics`).

Deviation: the timeout is not watched while the metadata log is flushed. A timeout of zero or less expires at once, as
in Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult
from kio.schema.errors import ErrorCode

from broker.config.describe import TopicDescriber, describe_new_topic
from broker.metadata.store import retrying
from broker.metadata.topic_planning import (
    MAX_PARTITIONS_PER_REQUEST,
    check_partition_total,
    check_record_total,
    plan_topic,
    require_memory,
    require_time_left,
)
from broker.metadata.topics import Topic
from broker.network.context import RequestContext
from metadata import topic_names
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from broker.node import Node
    from broker.quotas.mutations import MutationQuota


FIRST_VERSION_THAT_KNOWS_QUOTAS = 6


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    quota = ctx.node.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await retrying(lambda: _create(ctx.node, request, quota))


async def _create(node: Node, request: CreateTopicsRequest, quota: MutationQuota) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    allowed = [t for t in request.topics if named[t.name] == 1 and t.name != CLUSTER_METADATA_TOPIC_NAME]
    if allowed:
        require_time_left(request.timeout)
    check_partition_total(sum(_partition_count(node, topic) for topic in allowed))
    results: list[CreatableTopicResult] = []
    planned: list[Topic] = []
    describer = TopicDescriber(node.config, describe_new_topic)
    for wanted in allowed:
        try:
            topic = _plan(node, wanted)
            quota.charge(topic.name, len(topic.partitions))
        except KafkaError as error:
            results.append(_failed(wanted.name, error))
        else:
            require_memory(wanted.num_partitions)
            planned.append(topic)
            results.append(_created(describer, topic))
    check_record_total(sum(1 + len(topic.partitions) + len(topic.configs) for topic in planned))
    repeated = topic_names.repeated(topic.name for topic in request.topics)
    results += [_failed(name, InvalidRequest("Duplicate topic name.")) for name in repeated]
    if named[name := CLUSTER_METADATA_TOPIC_NAME] == 1:
        results.append(_failed(name, InvalidRequest(f"Creation of internal topic {name} is prohibited.")))
    if not request.validate_only:
        await node.topics.create(planned)
    return CreateTopicsResponse(throttle_time=quota.throttle_time, topics=tuple(results))


def _partition_count(node: Node, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return node.config.integer("num.partitions") if topic.num_partitions == -1 else max(topic.num_partitions, 0)


def _plan(node: Node, wanted: CreatableTopic) -> Topic:
    return plan_topic(
        node,
        wanted.name,
        partition_count=min(wanted.num_partitions, MAX_PARTITIONS_PER_REQUEST + 1),  # of more, none is created
        replication_factor=wanted.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in wanted.assignments],
        configs=[(config.name, config.value) for config in wanted.configs],
    )


def _created(describer: TopicDescriber, topic: Topic) -> CreatableTopicResult:
    entries = describer.describe(topic.configs)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=int(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in sorted(entries, key=lambda entry: entry.name)
        ),
    )


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, topic_id=None, error_code=error.code, error_message=error.explicit_message, configs=()
    )


def error_response(ctx: RequestContext, request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(throttle_time=ZERO, topics=tuple(_failed(t.name, error) for t in request.topics))
