"""The list of topics."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.console.ask import Ask, Page, allowed, paged
from broker.node import Node
from metadata.acls import ResourceType
from metadata.image import MetadataImage
from metadata.topics import TopicImage

ON_A_PAGE = 50


async def topics(ask: Ask) -> Page:
    image, part, with_internal = ask.node.cluster.cache.image, ask.text("q"), ask.text("internal") == "yes"
    found = await asyncio.to_thread(_matching, image, part.lower(), with_internal)
    shown = paged(ask, await allowed(ask.rights, ResourceType.TOPIC, found), ON_A_PAGE)
    rows = [_row(ask.node, image.topics.by_name[name]) for name in shown.rows]
    return Page("topics.html", "Topics", {"paging": shown, "rows": rows, "q": part, "internal": with_internal})


def _matching(image: MetadataImage, part: str, with_internal: bool) -> list[str]:
    """The names with this part, in order; any thread."""
    return sorted(
        topic.name for topic in image.topics if part in topic.name.lower() and (with_internal or not topic.is_internal)
    )


def _row(node: Node, topic: TopicImage) -> dict[str, Any]:
    """Sizes and records are of the partitions that this node has; not known if it has none."""
    logs = [partition for index in range(topic.partition_count) if (partition := node.replicas.get(topic.name, index))]
    counters = node.local.metrics.topics.get(topic.name)
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": topic.partition_count,
        "replicas": topic.replication_factor,
        "records": sum(max(one.high_watermark - one.log_start_offset, 0) for one in logs) if logs else None,
        "bytes": sum(one.log.size for one in logs) if logs else None,
        "bytes_in": (counters.bytes_in if counters else 0) if logs else None,
        "cleanup": node.cluster.cache.topic_configs(topic.name).get("cleanup.policy", "delete"),
    }
