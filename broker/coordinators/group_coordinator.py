"""The group coordinator of this node: its shards' state machines, connected to the node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker.config.broker_config import BrokerConfig
from broker.coordinators.group_topics import GroupTopics
from broker.coordinators.hosted import HostedCoordinator, HostingNode
from broker.metadata.features import Features
from broker.metadata.resource_configs import Resource, ResourceConfigs, ResourceType
from broker.metadata.topics import Topic
from broker.monitoring.group_metrics import register_group_metrics
from broker.monitoring.metrics import Metrics
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.metrics import GroupMetrics
from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.leave import fence
from coordinator.group.consumer.metrics import ConsumerGroupMetrics
from coordinator.group.directory import GroupDirectory
from coordinator.group.offsets.metrics import OffsetMetrics
from coordinator.group.shard import ROWS, GroupShard
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.runtime.shard import Shard
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME
from protocol import uuids
from protocol.errors import UnsupportedVersion
from protocol.records.compression import Compression
from timing.purgatory import Purgatory

MINUTE_MS = 60_000
CONSUMER_PREFIX = "consumer."


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


def consumer_group_config(config: BrokerConfig, configs: ResourceConfigs) -> ConsumerGroupConfig:
    """The settings of KIP-848 groups, in ms; `overrides` follows the groups' own configurations."""
    policy = config.string("group.consumer.migration.policy").lower()
    return ConsumerGroupConfig(
        session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
        max_size=config.integer("group.consumer.max.size"),
        assignors=config.list_("group.consumer.assignors"),
        may_upgrade=policy in ("bidirectional", "upgrade"),
        may_downgrade=policy in ("bidirectional", "downgrade"),
        regex_refresh_interval_ms=config.integer("group.consumer.regex.refresh.interval.ms"),
        overrides=_group_overrides(configs),
    )


def _group_overrides(configs: ResourceConfigs) -> Mapping[str, Mapping[str, int]]:
    """See `ConsumerGroupConfig.overrides` (Kafka's `GroupConfigManager`); cached, as every heartbeat asks."""
    overrides: dict[str, Mapping[str, int]] = {}

    def changed(resource: Resource) -> None:
        resource_type, group_id = resource
        if resource_type is ResourceType.GROUP:
            overrides.pop(group_id, None)
            own = {
                name.removeprefix(CONSUMER_PREFIX): int(value)
                for name, value in configs.get(*resource).items()
                if name.startswith(CONSUMER_PREFIX)
            }
            if own:
                overrides[group_id] = own

    for group_id in configs.names(ResourceType.GROUP):
        changed((ResourceType.GROUP, group_id))
    configs.subscribe(changed)
    return overrides


def require_consumer_protocol(config: BrokerConfig, features: Features) -> None:
    """Raises UnsupportedVersion unless groups of KIP-848 are offered."""
    offered = "consumer" in config.list_("group.coordinator.rebalance.protocols")
    if not offered or not features.levels.get("group.version", 0):
        raise UnsupportedVersion


class GroupCoordinator(HostedCoordinator[GroupShard]):
    """Routes messages for groups, by group id.

    `rebalances` and `heartbeats` are the purgatories of waiting joins and syncs, and of sessions.
    """

    load_buffer_config = "offsets.load.buffer.size"

    def __init__(self, node: HostingNode, configs: ResourceConfigs) -> None:
        config = node.config
        self.config = group_config(config)
        self.consumer_config = consumer_group_config(config, configs)
        self._random = node.random
        self.metrics = GroupMetrics()
        self.consumer_metrics = ConsumerGroupMetrics()
        self.offset_metrics = OffsetMetrics()
        self.rebalances = Purgatory("Rebalance", node.wheel)
        self.heartbeats = Purgatory("Heartbeat", node.wheel)
        self._deleted: list[str] = []
        self._topics = GroupTopics(node.topics, {node.node_id: config.optional_string("broker.rack")})
        runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            GROUP_METADATA_TOPIC_NAME,
            ROWS,
            self._new_state,
            clock=node.clock,
            wheel=node.wheel,
            compression=Compression(config.integer("offsets.topic.compression.codec")),
        )
        super().__init__(node, GROUP_METADATA_TOPIC_NAME, config.integer("offsets.topic.num.partitions"), runtime)

    def start(self) -> None:
        super().start()
        self._node.topics.subscribe(self._topic_changed)

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the metrics of groups for `/metrics`."""
        partitions = self._node.partitions
        counted = self.metrics, self.consumer_metrics, self.offset_metrics
        register_group_metrics(metrics, partitions, self.runtime, *counted)

    def _new_state(self, shard: Shard[GroupShard]) -> GroupShard:
        classic = ClassicGroups(shard, self.config, self._new_member_id, self.rebalances, self.heartbeats, self.metrics)
        consumer = ConsumerGroups(
            shard,
            self.consumer_config,
            self._topics,
            lambda: uuids.to_text(uuids.random_uuid(self._random)),
            classic,
            self.consumer_metrics,
            fence,
        )
        return GroupShard(shard, GroupDirectory(classic, consumer), self.config, self.offset_metrics)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuids.random_uuid(self._random)}"

    def _topic_changed(self, old: Topic | None, new: Topic | None) -> None:
        """Consumer groups check the topic again; the committed offsets of a deleted or recreated one are removed."""
        changed = new or old
        for shard in self.runtime.shards():
            if shard.state is not None and changed is not None:
                shard.state.groups.consumer.topic_changed(changed.name)
        if old is not None and (new is None or new.id != old.id):
            if not self._deleted:  # topics deleted together leave one batch of records
                asyncio.get_running_loop().call_soon(self._remove_offsets_of_deleted)
            self._deleted.append(old.name)

    def _remove_offsets_of_deleted(self) -> None:
        deleted, self._deleted = self._deleted, []
        for shard in self.runtime.shards():
            shard.tell(lambda state: state.offsets.topics_deleted(deleted))
