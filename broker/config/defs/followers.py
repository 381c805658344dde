"""Broker configurations of replication that one node alone has no use for (`ReplicationConfigs`)."""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, UpdateMode, at_least

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

FOLLOWER_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        "Fetches that are under way to each leader at once: its partitions are shared out to them.",
        at_least(1),
        mode=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigDef(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "Where consumers that name their rack are told to read (KIP-392): "
        f"`{RACK_AWARE_SELECTOR}` sends them to a follower in that rack; without it, or with `{LEADER_SELECTOR}`, they "
        "read from the leader. There is no other here.",
    ),
    ConfigDef(
        "replication.quota.window.num",
        ConfigType.INT,
        11,
        "Samples over which the rate of throttled replicas is averaged, the current one included (KIP-73).",
        at_least(1),
        "samples",
    ),
    ConfigDef(
        "replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "Time that each of these samples covers.",
        at_least(1),
        "s",
    ),
)
