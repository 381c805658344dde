"""The group coordinator of this node: its shards' state machines, with what they take from the node."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.coordinators import HostedCoordinator
from broker.group_metrics import register_group_metrics
from broker.topic_names import GROUP_METADATA_TOPIC_NAME
from coordinator.group.config import GroupConfig
from coordinator.group.groups import ClassicGroups
from coordinator.group.metrics import GroupMetrics
from coordinator.group.offset_metrics import OffsetMetrics
from coordinator.group.shard import ROWS, GroupShard
from coordinator.runtime.runtime import CoordinatorRuntime
from protocol.records.compression import Compression
from timing.purgatory import Purgatory

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.node import Node
    from broker.topics import Topic
    from coordinator.runtime.shard import Shard

MINUTE_MS = 60_000

GroupsAndOffsets = GroupShard[ClassicGroups]


def group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        max_size=config.integer("group.max.size"),
        offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )


class GroupCoordinator(HostedCoordinator[GroupsAndOffsets]):
    """Takes the messages for groups, by group id.

    ``rebalances`` and ``heartbeats`` are the purgatories of the joins and syncs, and of the sessions, that wait.
    """

    def __init__(self, node: Node) -> None:
        config = node.config
        self.config = group_config(config)
        self._random = node.random
        self.metrics = GroupMetrics()
        self.offset_metrics = OffsetMetrics()
        self.rebalances = Purgatory("Rebalance", node.wheel)
        self.heartbeats = Purgatory("Heartbeat", node.wheel)
        runtime: CoordinatorRuntime[GroupsAndOffsets] = CoordinatorRuntime(
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
        register_group_metrics(self._node, self)

    def _new_state(self, shard: Shard[GroupsAndOffsets]) -> GroupsAndOffsets:
        groups = ClassicGroups(shard, self.config, self._new_member_id, self.rebalances, self.heartbeats, self.metrics)
        return GroupShard(shard, groups, self.config, self.offset_metrics)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def _topic_changed(self, old: Topic | None, new: Topic | None) -> None:
        """A topic that is gone, or made anew, takes its committed offsets along."""
        if old is not None and (new is None or new.id != old.id):
            for shard in self.runtime.shards():
                shard.tell(lambda state: state.offsets.topic_deleted(old.name))
