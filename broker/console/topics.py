"""The list of topics; and one topic: its partitions, its configuration, and what keeps its readers from reading."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from broker.authorization.console_table import EVERYTHING, SIZES
from broker.config.describe import ConfigEntry, ConfigSource, describe_topic
from broker.console.ask import Ask, Values, allowed, paged
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topics import topic_of
from broker.testkit.explain import explain_topic
from broker.testkit.inspection.partitions import PartitionView, read_partitions, read_topics
from metadata.acls import ResourceType
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage

TOPICS_ON_A_PAGE = 50


async def topics(ask: Ask) -> Values:
    image, part, with_internal = ask.node.cluster.cache.image, ask.text("q"), ask.text("internal") == "yes"
    found = await asyncio.to_thread(_matching, image, part.lower(), with_internal)
    shown = paged(ask, await allowed(ask.rights, "metadata", ResourceType.TOPIC, found), TOPICS_ON_A_PAGE)
    partitions = await read_topics(ask.node, shown.rows)
    of_topic: dict[str, list[PartitionView]] = {name: [] for name in shown.rows}
    for one in partitions.values():
        of_topic[one.topic].append(one)
    rows = [_row(ask, image.topics.by_name[name], of) for name, of in of_topic.items()]
    return {"paging": shown, "rows": rows, "q": part, "internal": with_internal}


def _matching(image: MetadataImage, part: str, with_internal: bool) -> list[str]:
    """The names with this part, in order; any thread."""
    return sorted(
        topic.name for topic in image.topics if part in topic.name.lower() and (with_internal or not topic.is_internal)
    )


def _row(ask: Ask, topic: TopicImage, partitions: Sequence[PartitionView]) -> dict[str, Any]:
    """Records are those of all leaders; sizes, of the partitions that this node leads: not known if it leads none."""
    node, rights = ask.node, ask.rights
    has_records = rights.allow("list_offsets", ResourceType.TOPIC, topic.name)
    is_configured = rights.allow("describe_configs", ResourceType.TOPIC, topic.name)
    indexes = [one.partition for one in partitions if one.leader == node.node_id]
    logs = [partition for index in indexes if (partition := node.replicas.get(topic.name, index))]
    logs = logs if rights.allow(SIZES, ResourceType.CLUSTER) else []
    counters = node.local.metrics.topics.get(topic.name)
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": topic.partition_count,
        "replicas": topic.replication_factor,
        "records": sum(one.end - one.start for one in partitions)
        if has_records and all(one.is_known for one in partitions)
        else None,
        "bytes": sum(one.log.size for one in logs) if logs else None,
        "bytes_in": (counters.bytes_in if counters else 0) if logs else None,
        "cleanup": node.cluster.cache.topic_configs(topic.name).get("cleanup.policy", "delete")
        if is_configured
        else None,
    }


PARTITIONS_ON_A_PAGE = 100


def seen_topic(ask: Ask, parameter: str) -> TopicImage:
    """The topic that is asked for. Raises ControlError if there is none, or the user lacks the page's rights."""
    name = ask.name(parameter)
    ask.rights.check_needed(ask.given)
    if ask.rights.allow(SIZES, ResourceType.CLUSTER):
        return topic_of(ask.node, name)
    found = ask.node.cluster.cache.topic(name)
    if found is None:
        raise ControlError(f"there is no topic {name!r}", parameter=parameter, status=404)
    return found


async def topic(ask: Ask) -> Values:
    found = seen_topic(ask, "name")
    shown = paged(ask, list(range(found.partition_count)), PARTITIONS_ON_A_PAGE)
    partitions = await read_partitions(ask.node, [(found.name, index) for index in shown.rows])
    rows = [_partition_row(ask, one, found.partitions[one.partition]) for one in partitions.values()]
    return {
        "title": found.name,
        "topic": found.name,
        "id": str(found.id),
        "internal": found.is_internal,
        "partition_count": found.partition_count,
        "paging": shown,
        "rows": rows,
        "configs": _configs(ask, found.name),
        "findings": await explain_topic(ask.node, found.name)
        if ask.rights.allow(EVERYTHING, ResourceType.CLUSTER)
        else None,
    }


def _configs(ask: Ask, name: str) -> list[ConfigEntry] | None:
    """Those that are set for the topic come first; None for a user who may not see them."""
    if not ask.rights.allow("describe_configs", ResourceType.TOPIC, name):
        return None
    configs = describe_topic(ask.node.local.config, dict(ask.node.cluster.cache.topic_configs(name)))
    return sorted(configs, key=lambda one: (one.source is not ConfigSource.TOPIC, one.name))


def _partition_row(ask: Ask, one: PartitionView, registered: PartitionRegistration) -> dict[str, Any]:
    """What files its log has is known of those that this node leads."""
    node, rights = ask.node, ask.rights
    has_offsets = one.is_known and rights.allow("list_offsets", ResourceType.TOPIC, one.topic)
    has_producers = one.is_known and rights.allow("describe_producers", ResourceType.TOPIC, one.topic)
    led = node.replicas.get(one.topic, one.partition) if one.leader == node.node_id else None
    led = led if rights.allow(SIZES, ResourceType.CLUSTER) else None
    return {
        "index": one.partition,
        "leader": registered.leader,
        "epoch": registered.leader_epoch,
        "replicas": list(registered.replicas),
        "isr": list(registered.isr),
        "start": one.start if has_offsets else None,
        "stable": one.stable if has_offsets else None,
        "end": one.end if has_offsets else None,
        "bytes": None if led is None else led.log.size,
        "segments": None if led is None else len(led.log.segments),
        "open": len(one.open_producers) if has_producers else None,
    }
