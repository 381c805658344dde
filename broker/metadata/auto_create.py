"""Automatic creation of topics that clients ask for (Kafka's `DefaultAutoTopicCreationManager`)."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import structlog

from broker.metadata.internal_topics import plan_internal_topic
from broker.metadata.store import VersionConflictError
from broker.metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from broker.metadata.topic_planning import plan_topic
from protocol.errors import InvalidRequest, KafkaError, TopicExists

if TYPE_CHECKING:
    from broker.node import Node
    from broker.quotas.mutations import MutationQuota

logger = structlog.get_logger(__name__)


class AutoTopicCreation:
    """Creates topics with the broker's defaults; meanwhile, as in Kafka, clients are told that none exists."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._in_flight: set[str] = set()
        self._tasks: set[Task[None]] = set()

    def begin(self, names: Iterable[str], quota: MutationQuota) -> None:
        """Begin to create those topics whose creation has not begun. `quota` is that of the requesting client."""
        wanted = [name for name in names if name not in self._in_flight]
        if wanted and not self._node.stopping:
            self._in_flight.update(wanted)
            task = asyncio.get_running_loop().create_task(self._create_all(wanted, quota), name="auto-topic-creation")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Return when no creation is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _create_all(self, names: list[str], quota: MutationQuota) -> None:
        """Create one topic at a time, so that a stop waits for only one, and a failure does not affect the others."""
        asked = frozenset(names)
        for name in names:
            try:
                if not self._node.stopping:
                    await self._create(name, asked, quota)
            except KafkaError as error:
                logger.error("topic not created", topic=name, code=error.code.name, error=error.message)
            except Exception:
                logger.exception("unexpected error while a topic was created", topic=name)
            finally:
                self._in_flight.discard(name)

    async def _create(self, name: str, asked: Collection[str], quota: MutationQuota) -> None:
        node = self._node
        if name == CLUSTER_METADATA_TOPIC_NAME:
            raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
        try:
            topic = plan_internal_topic(node, name) or plan_topic(node, name, beside=asked)
            quota.charge(name, len(topic.partitions))
            await node.topics.create([topic], beside=asked)
        except (TopicExists, VersionConflictError):
            return  # another request has just created it, or a topic that collides with it
        logger.info("topic created on first use", topic=name, partitions=len(topic.partitions))
