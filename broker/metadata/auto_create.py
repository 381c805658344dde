"""Automatic creation of topics that clients ask for (Kafka's `DefaultAutoTopicCreationManager`)."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import structlog

from broker.config.start_topics import StartTopic
from broker.metadata.internal_topics import plan_internal_topic
from broker.metadata.store import VersionConflictError
from broker.metadata.topic_planning import PlanningNode, plan_topic
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.errors import InvalidRequest, KafkaError, TopicExists

logger = structlog.get_logger(__name__)

Charge = Callable[[str, int], None]
"""Counts a topic's partitions against a client's quota; raises ThrottlingQuotaExceeded."""


class CreatingNode(PlanningNode, Protocol):
    """The node as automatic creation sees it; `stopping`: it creates nothing any more."""

    stopping: bool


class AutoTopicCreation:
    """Creates topics with the broker's defaults; meanwhile, as in Kafka, clients are told that none exists."""

    def __init__(self, node: CreatingNode) -> None:
        self._node = node
        self._in_flight: set[str] = set()
        self._tasks: set[Task[None]] = set()

    def begin(self, names: Iterable[str], charge: Charge) -> None:
        """Begin to create those topics whose creation has not begun. `charge` is for the requesting client."""
        wanted = [name for name in names if name not in self._in_flight]
        if wanted and not self._node.stopping:
            self._in_flight.update(wanted)
            task = asyncio.get_running_loop().create_task(self._create_all(wanted, charge), name="auto-topic-creation")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def create_at_start(self, topics: Iterable[StartTopic]) -> None:
        """Create those topics that do not exist; one that cannot be created is logged."""
        for wanted in topics:
            if self._node.topics.get(wanted.name) is not None:
                continue
            try:
                topic = plan_topic(
                    self._node,
                    wanted.name,
                    partition_count=wanted.partitions,
                    replication_factor=wanted.replication_factor,
                    configs=[("cleanup.policy", wanted.cleanup_policy)] if wanted.cleanup_policy else [],
                )
                await self._node.topics.create([topic])
            except KafkaError as error:
                logger.error("topic not created", topic=wanted.name, code=error.code.name, error=error.message)
            else:
                logger.info("topic created at the start", topic=wanted.name, partitions=len(topic.partitions))

    async def stop(self) -> None:
        """Return when no creation is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _create_all(self, names: list[str], charge: Charge) -> None:
        """Create one topic at a time, so that a stop waits for only one, and a failure does not affect the others."""
        asked = frozenset(names)
        for name in names:
            try:
                if not self._node.stopping:
                    await self._create(name, asked, charge)
            except KafkaError as error:
                logger.error("topic not created", topic=name, code=error.code.name, error=error.message)
            except Exception:
                logger.exception("unexpected error while a topic was created", topic=name)
            finally:
                self._in_flight.discard(name)

    async def _create(self, name: str, asked: Collection[str], charge: Charge) -> None:
        node = self._node
        if name == CLUSTER_METADATA_TOPIC_NAME:
            raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
        try:
            topic = plan_internal_topic(node, name) or plan_topic(node, name, beside=asked)
            charge(name, len(topic.partitions))
            await node.topics.create([topic], beside=asked)
        except (TopicExists, VersionConflictError):
            return  # another request has just created it, or a topic that collides with it
        logger.info("topic created on first use", topic=name, partitions=len(topic.partitions))
