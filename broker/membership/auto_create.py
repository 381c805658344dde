"""Automatic creation of topics: those that clients ask for, and those in which coordinators keep their state.

Topics of coordinators are created on first use, with configurations of their own (Kafka's
`DefaultAutoTopicCreationManager`, `GroupCoordinatorService.groupMetadataTopicConfigs`,
`TransactionStateManager.transactionTopicConfigs` and `ShareCoordinatorService.shareGroupStateTopicConfigs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.config.structured import StartTopic
from broker.membership.controller_port import Controller
from broker.membership.metadata_cache import MetadataCache
from controller.decision import MutationQuota, NoQuota
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME, SHARE_GROUP_STATE_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME
from protocol.errors import CoordinatorNotAvailable, KafkaError

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic
    from kio.schema.create_topics.v7.response import CreatableTopicResult

BY_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class _Kind:
    """Where an internal topic is configured, what else it has, and what sets its `min.insync.replicas`."""

    prefix: str
    configs: Mapping[str, str]
    min_isr: str | None = None


_KINDS = {
    GROUP_METADATA_TOPIC_NAME: _Kind("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE_TOPIC_NAME: _Kind(
        "transaction.state.log",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
        "transaction.state.log.min.isr",
    ),
    SHARE_GROUP_STATE_TOPIC_NAME: _Kind(
        "share.coordinator.state.topic",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
        "share.coordinator.state.topic.min.isr",
    ),
}


def creatable(config: BrokerConfig, name: str) -> CreatableTopic:
    """The topic as it is asked for when it is first needed; the broker's defaults for a topic that is not internal."""
    kind = _KINDS.get(name)
    if kind is None:
        return wanted(name)
    configs = dict(kind.configs)
    if kind.min_isr is not None:
        configs["min.insync.replicas"] = str(config.integer(kind.min_isr))
    configs["segment.bytes"] = str(config.integer(f"{kind.prefix}.segment.bytes"))
    return wanted(
        name,
        config.integer(f"{kind.prefix}.num.partitions"),
        config.integer(f"{kind.prefix}.replication.factor"),
        configs,
    )


def wanted(
    name: str, partition_count: int = BY_DEFAULT, replication_factor: int = BY_DEFAULT, configs: Mapping[str, str] = {}
) -> CreatableTopic:
    """A topic of a CreateTopics request."""
    from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig

    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )


logger = structlog.get_logger(__name__)

TIMEOUT = timedelta(seconds=30)


class AutoTopicCreation:
    """Creates topics with the broker's defaults; meanwhile, as in Kafka, clients are told that none exists.

    Attributes:
        stopping: no client's request creates a topic any more.
        failures: why topics that streams groups want were not created, by name, until they are.
        made: the ids of the topics that this process created because a client had named them.
    """

    def __init__(self, current: CurrentConfig, cache: MetadataCache, controller: Controller) -> None:
        self._current = current
        self._cache = cache
        self._controller = controller
        self.stopping = False
        self.failures: dict[str, str] = {}
        self.made: set[UUID] = set()
        self._in_flight: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, names: Iterable[str], quota: MutationQuota) -> None:
        """Begin to create those topics whose creation has not begun. `quota` is that of the requesting client."""
        self._begin([creatable(self._current.config, name) for name in names], quota, "topic created on first use")

    def begin_wanted(self, topics: Iterable[CreatableTopic]) -> None:
        """Begin to create the internal topics of a streams group; what fails is in `failures`."""
        self._begin(topics, NoQuota(), "topic of a streams group created")

    def _begin(self, topics: Iterable[CreatableTopic], quota: MutationQuota, done: str) -> None:
        new = [topic for topic in topics if topic.name not in self._in_flight]
        if new and not self.stopping:
            self._in_flight.update(topic.name for topic in new)
            task = asyncio.get_running_loop().create_task(self._begun(new, quota, done), name="auto-topic-creation")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def create_at_start(self, topics: Iterable[StartTopic]) -> None:
        """Create those topics that do not exist; one that cannot be created is logged."""
        new = []
        for topic in topics:
            configs = {"cleanup.policy": topic.cleanup_policy} if topic.cleanup_policy else {}
            if self._cache.topic(topic.name) is None:
                new.append(wanted(topic.name, topic.partitions, topic.replication_factor, configs))
        await self._create(new, NoQuota(), "topic created at the start")

    async def ensure_internal(self, name: str) -> None:
        """Create the internal topic if it does not exist. Raises CoordinatorNotAvailable if that fails."""
        await self.ensure(creatable(self._current.config, name), "internal topic created")
        if self._cache.topic(name) is None:
            raise CoordinatorNotAvailable

    async def ensure(self, topic: CreatableTopic, done: str) -> None:
        """Create the topic if it does not exist; that it cannot be created is logged."""
        if self._cache.topic(topic.name) is None:
            await self._create([topic], NoQuota(), done)

    async def stop(self) -> None:
        """Return when no creation is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _begun(self, topics: Collection[CreatableTopic], quota: MutationQuota, done: str) -> None:
        try:
            self.made |= await self._create(topics, quota, done)
        finally:
            self._in_flight.difference_update(topic.name for topic in topics)

    async def _create(self, topics: Collection[CreatableTopic], quota: MutationQuota, done: str) -> set[UUID]:
        """Create the topics that can be, and return their ids; log what became of each."""
        if not topics:
            return set()
        from kio.schema.create_topics.v7 import CreateTopicsRequest

        from controller import create_topics

        request = CreateTopicsRequest(topics=tuple(topics), timeout=TIMEOUT, validate_only=False)
        try:
            response = await self._controller.submit(
                lambda image: create_topics.decide(image, request, self._controller.around, quota), request=request
            )
        except KafkaError as error:
            logger.error("topics not created", topics=[t.name for t in topics], code=error.code.name, error=str(error))
            return set()
        for result in response.topics:
            _log(result, done)
            self.failures.pop(result.name, None)
            if result.error_code is not ErrorCode.none:
                self.failures[result.name] = f"{result.name} ({result.error_message or result.error_code.name})"
        return {result.topic_id for result in response.topics if result.topic_id is not None}


def _log(result: CreatableTopicResult, done: str) -> None:
    if result.error_code is ErrorCode.none:
        logger.info(done, topic=result.name, partitions=result.num_partitions)
    elif result.error_code is not ErrorCode.topic_already_exists:  # another request was faster
        logger.error(
            "topic not created", topic=result.name, code=result.error_code.name, error=result.error_message or ""
        )
