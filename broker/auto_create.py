"""Topics made because a client asked for them (Kafka's ``AutoTopicCreationManager``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from broker import topic_names
from broker.internal_topics import plan_internal_topic
from broker.metadata_store import VersionConflict
from broker.topics import Topic, assign
from protocol.errors import TopicExists

if TYPE_CHECKING:
    from broker.node import Node

log = structlog.get_logger(__name__)


async def auto_create(node: Node, names: Iterable[str]) -> None:
    """Creates the topics with the broker's defaults; one that another request just made is as good."""
    for name in names:
        if node.topics.colliding_with(name) not in (None, name):
            log.warning("topic not created: its name collides with another's", topic=name)
            continue
        try:
            topic = plan_internal_topic(node, name) or _plan(node, name)
            await node.topics.create([topic])
        except (TopicExists, VersionConflict):
            continue
        log.info("topic created on first use", topic=name, partitions=len(topic.partitions))


def _plan(node: Node, name: str) -> Topic:
    partitions = tuple(assign([node.node_id]) for _ in range(node.config.integer("num.partitions")))
    return Topic(name, topic_names.random_topic_id(node.random), partitions)
