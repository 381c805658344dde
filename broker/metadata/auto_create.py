"""Topics made because a client asked for them (Kafka's `DefaultAutoTopicCreationManager`)."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from broker.metadata.internal_topics import plan_internal_topic
from broker.metadata.store import VersionConflict
from broker.metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from broker.metadata.topic_planning import plan_topic
from protocol.errors import InvalidRequest, KafkaError, TopicExists

if TYPE_CHECKING:
    from broker.metadata.topics import Topic
    from broker.node import Node
    from broker.quotas.mutations import MutationQuota

logger = structlog.get_logger(__name__)


class AutoTopicCreation:
    """Creates topics with the broker's defaults; meanwhile, as in Kafka, clients are told they do not exist."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._in_flight: set[str] = set()
        self._tasks: set[Task[None]] = set()

    def begin(self, names: Iterable[str], quota: MutationQuota) -> None:
        """Returns at once. Topics already being created are left out. `quota` is the asking client's."""
        wanted = [name for name in names if name not in self._in_flight]
        if wanted and not self._node.stopping:
            self._in_flight.update(wanted)
            task = asyncio.get_running_loop().create_task(self._create_all(wanted, quota), name="auto-topic-creation")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Returns when no creation is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _create_all(self, names: list[str], quota: MutationQuota) -> None:
        """All in one change, as by one CreateTopics: names of one request do not collide with each other."""
        try:
            while not self._node.stopping and (planned := self._planned(names, quota)):
                try:
                    await self._node.topics.create(planned)
                except (TopicExists, VersionConflict):
                    continue  # another request came between: what is left?
                for topic in planned:
                    logger.info("topic created on first use", topic=topic.name, partitions=len(topic.partitions))
                return
        except KafkaError as error:
            logger.error("topics not created", topics=names, code=error.code.name, error=error.message)
        except Exception:
            logger.exception("unexpected error while topics were created", topics=names)
        finally:
            self._in_flight.difference_update(names)

    def _planned(self, names: list[str], quota: MutationQuota) -> list[Topic]:
        """Those that are still missing and may be made."""
        node = self._node
        planned = []
        for name in names:
            try:
                if name == CLUSTER_METADATA_TOPIC_NAME:
                    raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
                topic = plan_internal_topic(node, name) or plan_topic(node, name)
                quota.charge(name, len(topic.partitions))
                planned.append(topic)
            except TopicExists:
                continue
            except KafkaError as error:
                logger.error("topic not created", topic=name, code=error.code.name, error=error.message)
        return planned
