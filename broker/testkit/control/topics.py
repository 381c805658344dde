"""Topics, without a client: list, create, delete, their offsets, and emptying them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode

from broker.api.partitions import raise_log_starts
from broker.membership.auto_create import BY_DEFAULT, wanted
from broker.nearest import did_you_mean
from broker.node import Node
from broker.peers.leaders import ask
from broker.replication.log_maintenance import TO_HIGH_WATERMARK
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.inspection.partitions import leader_of, read_partitions
from controller import create_topics, delete_topics
from controller.decision import NoQuota
from metadata.configs import ResourceType
from metadata.topic_names import is_internal
from metadata.topics import TopicImage
from protocol.durations import MILLISECOND
from protocol.errors import KafkaStorage, LeaderNotAvailable
from protocol.metadata.topics import NO_LEADER
from protocol.topic_partition import PartitionKey

ENDPOINTS = Endpoints()

TOPIC = Parameter("topic", Kind.STRING, "the topic's name", required=True)
PARTITION = Parameter("partition", Kind.INTEGER, "one partition's number; all of them by default", least=0)


TIMEOUT = timedelta(seconds=30)
LOOK_MS = 5


AT_FAULT = {
    ErrorCode.invalid_topic_exception: "topic",
    ErrorCode.invalid_partitions: "partitions",
    ErrorCode.invalid_config: "configs",
    ErrorCode.invalid_request: "configs",
}


def topic_of(node: Node, name: str) -> TopicImage:
    """The topic. Raises ControlError if there is none."""
    found = node.cluster.cache.topic(name)
    if found is None:
        existing = [topic.name for topic in node.cluster.cache.image.topics]
        raise ControlError(f"there is no topic {name!r}{did_you_mean(name, existing)}", parameter="topic", status=404)
    return found


def partitions_of(topic: TopicImage, values: Values) -> list[PartitionKey]:
    """The topic's partitions, or the one that the request names. Raises ControlError."""
    index, count = values.get("partition"), topic.partition_count
    if index is None:
        return [(topic.name, each) for each in range(count)]
    if index not in range(count):
        raise ControlError(
            f"partition = {index}: expected 0 to {count - 1}, as {topic.name} has {count} partitions",
            parameter="partition",
        )
    return [(topic.name, index)]


def _described(node: Node, topic: TopicImage) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.id),
        "partitions": topic.partition_count,
        "internal": is_internal(topic.name),
        "configs": dict(node.cluster.cache.topic_configs(topic.name)),
    }


@ENDPOINTS("GET /topics", "All topics.")
def _list(node: Node, _values: Values) -> dict[str, Any]:
    topics = sorted(node.cluster.cache.image.topics, key=lambda topic: topic.name)
    return {"topics": [_described(node, topic) for topic in topics]}


@ENDPOINTS(
    "POST /topics",
    "Create a topic, unless it exists already with these partitions and configurations.",
    TOPIC,
    Parameter("partitions", Kind.INTEGER, "how many; by default num.partitions, or what it has", least=1),
    Parameter("configs", Kind.OBJECT, "topic configurations, as cleanup.policy"),
)
async def _create(node: Node, values: Values) -> dict[str, Any]:
    """Create the topic unless it exists as it is asked for.

    A client of an earlier test may make topics anew that a reset has just deleted, only by asking for their metadata.
    Such a topic, which nobody wrote to, gives way.
    """
    name, partitions = values["topic"], values.get("partitions")
    configs = texts_of(values.get("configs", {}))
    while True:
        existing = node.cluster.cache.topic(name)
        if existing is None:
            if await _create_new(node, name, BY_DEFAULT if partitions is None else partitions, configs):
                return {**_described(node, topic_of(node, name)), "created": True}
            continue
        try:
            _require_same(node, existing, partitions, configs)
        except ControlError:
            if not await _is_unused(node, existing):
                raise
            await _delete(node, {"topic": name})
        else:
            return {**_described(node, existing), "created": False}


async def _is_unused(node: Node, topic: TopicImage) -> bool:
    """Whether a client's request made the topic, with the broker's defaults, and it never had a record."""
    if topic.id not in node.cluster.auto_topics.made:
        return False
    keys = [(topic.name, index) for index in range(topic.partition_count)]
    return not any(partition.unknown or partition.end for partition in (await read_partitions(node, keys)).values())


def texts_of(configs: dict[str, Any]) -> dict[str, str]:
    """Configurations as Kafka has them. Raises ControlError."""
    texts = {}
    for name, value in configs.items():
        if not isinstance(value, str | int | float):
            raise ControlError(
                f"configs: {name} = {value!r}: expected a text, a number, true or false", parameter="configs"
            )
        texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


async def _create_new(node: Node, name: str, partitions: int, configs: dict[str, str]) -> bool:
    """Create the topic; False if somebody else was faster. Raises ControlError."""
    request = CreateTopicsRequest(topics=(wanted(name, partitions, BY_DEFAULT, configs),), timeout=TIMEOUT)
    controller = node.controller
    response = await controller.submit(
        lambda image: create_topics.decide(image, request, controller.around, NoQuota()), request=request
    )
    result = response.topics[0]
    if result.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
        message = f"{result.error_code.name.upper()}: {result.error_message or f'the topic {name} cannot be created'}"
        raise ControlError(message, parameter=AT_FAULT.get(result.error_code))
    while controller.is_elsewhere and node.cluster.cache.topic(name) is None:  # it is on its way to this node
        await node.base.seams.clock.machine.sleep(LOOK_MS)
    return result.error_code is ErrorCode.none


def _require_same(node: Node, topic: TopicImage, partitions: int | None, configs: dict[str, str]) -> None:
    name = topic.name
    if partitions is not None and partitions != topic.partition_count:
        raise ControlError(
            f"partitions = {partitions}: {name} exists and has {topic.partition_count}; delete it first, or ask for "
            f"{topic.partition_count}",
            parameter="partitions",
            status=409,
        )
    present = node.cluster.cache.image.configs.of(ResourceType.TOPIC, name)
    for key, value in configs.items():
        if present.get(key) != value:
            has = f"has {key} = {present[key]}" if key in present else f"does not set {key}"
            raise ControlError(f"configs: {key} = {value}: {name} exists and {has}", parameter="configs", status=409)


@ENDPOINTS("DELETE /topics/{topic}", "Delete a topic.", TOPIC)
async def _delete(node: Node, values: Values) -> None:
    topic = topic_of(node, values["topic"])
    if not node.local.config.boolean("delete.topic.enable"):
        raise ControlError("topics are not deleted here: delete.topic.enable is false", status=409)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=topic.name, topic_id=None),), timeout=TIMEOUT)
    await node.controller.submit(lambda image: delete_topics.decide(image, request, NoQuota()), request=request)


@ENDPOINTS(
    "GET /topics/{topic}/offsets",
    "By partition: the first offset, the last stable offset, and the end (the high watermark).",
    TOPIC,
    PARTITION,
)
async def _offsets(node: Node, values: Values) -> dict[str, Any]:
    found = await read_partitions(node, partitions_of(topic_of(node, values["topic"]), values))
    for one in found.values():
        if one.unknown:
            text = f"the offsets of {one.name} are not known: {one.unknown}"
            raise LeaderNotAvailable(text) if one.has_leader else KafkaStorage(text)
    return {
        "partitions": {
            str(one.partition): {"start": one.start, "stable": one.stable, "end": one.end} for one in found.values()
        }
    }


@ENDPOINTS(
    "POST /topics/{topic}/truncate",
    "Delete the records of a topic, all or those before an offset; new ones get the offsets that follow.",
    TOPIC,
    PARTITION,
    Parameter("before", Kind.INTEGER, "delete the records with smaller offsets; all by default", least=0),
)
async def _truncate(node: Node, values: Values) -> dict[str, Any]:
    """Delete records as Kafka's DeleteRecords does (KIP-107): offsets go on from where they are."""
    topic = topic_of(node, values["topic"])
    offset = values.get("before", TO_HIGH_WATERMARK)
    by_leader: dict[int, list[PartitionKey]] = {}
    for key in partitions_of(topic, values):
        leader = leader_of(node, key)
        here = leader in (None, NO_LEADER, node.node_id)
        by_leader.setdefault(node.node_id if here or leader is None else leader, []).append(key)
    deletions = (_delete_before(node, leader, keys, offset) for leader, keys in by_leader.items())
    for (name, index), code in [each for several in await asyncio.gather(*deletions) for each in several]:
        if code is not ErrorCode.none:
            at_fault = "before" if code is ErrorCode.offset_out_of_range else None
            raise ControlError(f"{code.name.upper()}: {name}-{index}", parameter=at_fault, status=409)
    return await _offsets(node, {key: value for key, value in values.items() if key != "before"})


async def _delete_before(
    node: Node, leader: int, keys: Sequence[PartitionKey], offset: int
) -> list[tuple[PartitionKey, ErrorCode]]:
    if leader == node.node_id:
        results = await raise_log_starts(node.replicas, dict.fromkeys(keys, offset), TIMEOUT // MILLISECOND)
        return [(key, result.error_code) for key, result in results.items()]
    asked = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for _, index in keys)
    topics = (DeleteRecordsTopic(name=keys[0][0], partitions=asked),)
    request = DeleteRecordsRequest(topics=topics, timeout=TIMEOUT)
    answer = await ask(node.cluster.peers.reach, leader, request, lowest=0, timeout_ms=2 * (TIMEOUT // MILLISECOND))
    return [((each.name, one.partition_index), one.error_code) for each in answer.topics for one in each.partitions]
