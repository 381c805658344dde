"""Broker configurations of replication that one node alone has no use for (`ReplicationConfigs`)."""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, UpdateMode

FOLLOWER_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        "Fetches that are under way to each leader at once: its partitions are shared out to them.",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
)
