"""Broker configurations of `__share_group_state` (`ShareCoordinatorConfig`).

There are no share groups here, but clients can have the topic made.
"""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, at_least

SHARE_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "share.coordinator.state.topic.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of `__share_group_state`, which is made when a client asks for it.",
        at_least(1),
        "partitions",
    ),
    ConfigDef(
        "share.coordinator.state.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replicas of `__share_group_state`; one node can only make it if this is 1.",
        at_least(1),
        "replicas",
    ),
    ConfigDef(
        "share.coordinator.state.topic.min.isr",
        ConfigType.SHORT,
        2,
        "`min.insync.replicas` of `__share_group_state`.",
        at_least(1),
        "replicas",
    ),
    ConfigDef(
        "share.coordinator.state.topic.segment.bytes",
        ConfigType.INT,
        100 << 20,
        "`segment.bytes` of `__share_group_state`.",
        at_least(1),
        "bytes",
    ),
)
