"""The list of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from broker.authorization.console_table import SIZES
from broker.console.ask import Ask, Page, allowed, paged
from broker.testkit.inspection.partitions import PartitionView, read_topics
from metadata.acls import ResourceType
from metadata.image import MetadataImage
from metadata.topics import TopicImage

ON_A_PAGE = 50


async def topics(ask: Ask) -> Page:
    image, part, with_internal = ask.node.cluster.cache.image, ask.text("q"), ask.text("internal") == "yes"
    found = await asyncio.to_thread(_matching, image, part.lower(), with_internal)
    shown = paged(ask, await allowed(ask.rights, "metadata", ResourceType.TOPIC, found), ON_A_PAGE)
    partitions = await read_topics(ask.node, shown.rows)
    of_topic: dict[str, list[PartitionView]] = {name: [] for name in shown.rows}
    for one in partitions.values():
        of_topic[one.topic].append(one)
    rows = [_row(ask, image.topics.by_name[name], of) for name, of in of_topic.items()]
    return Page("topics.html", "Topics", {"paging": shown, "rows": rows, "q": part, "internal": with_internal})


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
