"""The group coordinator of this node: its shards' state machines, connected to the host.

It gives each shard its settings, a view of the topics that keeps up with the image (`GroupTopics`), and the groups' own
configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import structlog

from broker.config.broker_config import BrokerConfig, CurrentConfig, split_list
from broker.config.resource_configs import within_limits
from broker.coordinators.hosted import Host, HostedCoordinator
from broker.membership.metadata_cache import MetadataCache
from coordinator.group.classic.group import GroupState
from coordinator.group.directory import GroupDirectory
from coordinator.group.group_coordinator_shard import ROWS, GroupCoordinatorShard
from coordinator.group.kinds import ConsumerGroupConfig, GroupConfig, GroupCounts, ShareGroupConfig, StreamsGroupConfig
from coordinator.group.modern.groups import ModernGroupServices, ShareStatePort
from coordinator.group.modern.topics import TopicImage as GroupTopic
from coordinator.group.share.partition_states import topics_deleted
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.runtime import CoordinatorRuntime
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME
from metadata.topics import TopicImage, TopicsDelta
from protocol import uuids
from protocol.records.compression import Compression

MINUTE_MS = 60_000
TAGS = "streams.rack.aware.assignment.tags"


def group_config(config: BrokerConfig) -> GroupConfig:
    """The group coordinator's settings, in ms and bytes (Kafka's `GroupCoordinatorConfig`)."""
    return GroupConfig(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )


def _modern_config(current: CurrentConfig, kind: str, overrides: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """The settings that all kinds of modern groups have, in ms; see `ModernGroupConfig`."""
    config = current.config
    return {
        "session_timeout_ms": config.integer(f"group.{kind}.session.timeout.ms"),
        "heartbeat_interval_ms": config.integer(f"group.{kind}.heartbeat.interval.ms"),
        "assignment_interval": lambda: current.config.integer(f"group.{kind}.assignment.interval.ms"),
        "max_size": config.integer(f"group.{kind}.max.size"),
        "overrides": overrides,
    }


def consumer_group_config(current: CurrentConfig, overrides: Mapping[str, Mapping[str, int]]) -> ConsumerGroupConfig:
    config = current.config
    policy = config.string("group.consumer.migration.policy").lower()
    return ConsumerGroupConfig(
        **_modern_config(current, "consumer", overrides),
        assignors=config.list_("group.consumer.assignors"),
        may_upgrade=policy in ("bidirectional", "upgrade"),
        may_downgrade=policy in ("bidirectional", "downgrade"),
        regex_refresh_interval_ms=config.integer("group.consumer.regex.refresh.interval.ms"),
    )


def streams_group_config(
    current: CurrentConfig, overrides: Mapping[str, Mapping[str, int]], tags: Mapping[str, tuple[str, ...]]
) -> StreamsGroupConfig:
    config = current.config
    return StreamsGroupConfig(
        **_modern_config(current, "streams", overrides),
        initial_rebalance_delay_ms=config.integer("group.streams.initial.rebalance.delay.ms"),
        standby_replicas=config.integer("group.streams.num.standby.replicas"),
        default_tags=config.list_("group.streams.rack.aware.assignment.tags"),
        tags=tags,
    )


class GroupOverrides(dict[str, Mapping[str, int]]):
    """The groups' own numbers whose names have a prefix, as every heartbeat asks for them (`GroupConfigManager`)."""

    def __init__(self, prefix: str, config: BrokerConfig) -> None:
        super().__init__()
        self._prefix = prefix
        self._config = config

    def put(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Take what is set for a group now."""
        self.pop(group_id, None)
        own = {
            name.removeprefix(self._prefix): self._effective(group_id, name, int(value))
            for name, value in configs.items()
            if name.startswith(self._prefix) and value.strip().isdecimal()
        }
        if own:
            self[group_id] = own

    def _effective(self, group_id: str, name: str, value: int) -> int:
        effective = within_limits(self._config, name, value)
        if effective != value:
            logger.warning(
                "group config is beyond the limits of the broker",
                group=group_id,
                name=name,
                set=value,
                used=effective,
            )
        return effective


class GroupCoordinator(HostedCoordinator[GroupCoordinatorShard]):
    """Routes messages for groups, by group id."""

    load_buffer_config = "offsets.load.buffer.size"

    def __init__(self, host: Host, share_state: ShareStatePort) -> None:
        config = host.current.config
        self.config = group_config(config)
        self._overrides = [GroupOverrides(f"{kind}.", config) for kind in ("consumer", "share", "streams")]
        consumer, share, streams = self._overrides
        self.consumer_config = consumer_group_config(host.current, consumer)
        self._streams_tags: dict[str, tuple[str, ...]] = {}
        self._random = host.random
        self.counts = GroupCounts()
        self._topics = GroupTopics(host.cache)
        self._modern = ModernGroupServices(
            self._topics,
            share_state,
            lambda: uuids.to_text(uuids.random_uuid(self._random)),
            self.consumer_config,
            ShareGroupConfig(**_modern_config(host.current, "share", share)),
            streams_group_config(host.current, streams, self._streams_tags),
        )
        runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            GROUP_METADATA_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=host.clock,
            wheel=host.wheel,
            compression=Compression(config.integer("offsets.topic.compression.codec")),
            write_timeout_ms=config.integer("offsets.commit.timeout.ms"),
        )
        super().__init__(host, GROUP_METADATA_TOPIC_NAME, config.integer("offsets.topic.num.partitions"), runtime)

    def start(self) -> None:
        """See `HostedCoordinator.start`; from here on the groups' own configurations count."""
        configs = self._host.cache.image.configs
        for group_id in configs.names(ResourceType.GROUP):
            self._put_configs(group_id, configs.of(ResourceType.GROUP, group_id))
        super().start()

    def _put_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        for overrides in self._overrides:
            overrides.put(group_id, configs)
        self._streams_tags.pop(group_id, None)
        if TAGS in configs:
            self._streams_tags[group_id] = split_list(configs[TAGS])

    def waiting(self) -> dict[str, int]:
        """How many classic groups wait for joins and syncs, and how many sessions they have.

        By the names of the purgatories that Kafka had for them.
        """
        classic = [context.state.groups.classic for context in self.runtime.contexts() if context.state is not None]
        by_state = self.counts.groups
        return {
            "Rebalance": by_state[GroupState.PREPARING_REBALANCE] + by_state[GroupState.COMPLETING_REBALANCE],
            "Heartbeat": sum(
                len(group.members) + len(group.pending) for groups in classic for group in groups.by_id.values()
            ),
        }

    def _new_state(self, context: CoordinatorContext[GroupCoordinatorShard]) -> GroupCoordinatorShard:
        groups = GroupDirectory(context, self.config, self.counts, self._new_member_id, self._modern)
        return GroupCoordinatorShard(context, groups, self.config, self.counts)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuids.random_uuid(self._random)}"

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Besides shards, groups follow: their topics, their configurations, and the offsets of deleted topics."""
        if delta.touched("configs"):
            for (resource_type, name), configs in delta.configs.changed.items():
                if resource_type == ResourceType.GROUP:
                    self._put_configs(name, configs)
        super().follow(delta, image)
        if delta.touched("topics"):
            self._topics.follow(delta, image)
            self._topics_changed(delta.topics)

    def _topics_changed(self, topics: TopicsDelta) -> None:
        """Groups check changed topics again; the committed offsets of deleted ones are removed."""
        deleted = [topic.name for topic in topics.deleted.values()]
        changed = {*deleted, *(delta.after.name for delta in topics.changed.values())}
        for context in self.runtime.contexts():
            if context.state is not None:
                for name in changed:
                    context.state.groups.modern.topic_changed(name)
            if deleted:
                context.tell_once_loaded(lambda state: state.offsets.topics_deleted(deleted))
                context.tell_once_loaded(lambda state: topics_deleted(state.groups.modern, topics.deleted))


class GroupTopics:
    """The image as groups see it (`coordinator.group.modern.topics.TopicsPort`).

    Versions are the offsets of the images in which topics changed.
    """

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._views: dict[UUID, tuple[TopicImage, GroupTopic]] = {}
        """The view of each topic; replaced when the topic changes."""
        self.version = self.newest = cache.image.offset

    def by_name(self, name: str) -> GroupTopic | None:
        topic = self._cache.topic(name)
        return None if topic is None else self._view(topic)

    def by_id(self, topic_id: UUID) -> GroupTopic | None:
        topic = self._cache.topic_by_id(topic_id)
        return None if topic is None else self._view(topic)

    def names(self) -> Iterable[str]:
        return [topic.name for topic in self._cache.image.topics]

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note that topics have changed."""
        self.version = image.offset
        for topic_id in delta.topics.deleted:
            self._views.pop(topic_id, None)
        if any(changed.before is None for changed in delta.topics.changed.values()):
            self.newest = image.offset

    def _view(self, topic: TopicImage) -> GroupTopic:
        made_of, view = self._views.get(topic.id, (None, None))
        if view is None or made_of is not topic:
            view = GroupTopic(
                topic.name, topic.id, [self._racks(partition.replicas) for _, partition in topic.in_order()]
            )
            self._views[topic.id] = topic, view
        return view

    def _racks(self, replicas: Iterable[int]) -> list[str]:
        brokers = map(self._cache.broker, replicas)
        return sorted(broker.rack for broker in brokers if broker is not None and broker.rack)


logger = structlog.get_logger(__name__)
