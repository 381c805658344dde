"""Streams groups (KIP-1071; Kafka's `GroupCoordinatorConfig`)."""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, UpdateMode, at_least

INT = ConfigType.INT


def _ms(name: str, default: int, doc: str, low: int = 1) -> ConfigDef:
    return ConfigDef(name, INT, default, doc, at_least(low), "ms")


STREAMS_DEFS: tuple[ConfigDef, ...] = (
    _ms("group.streams.session.timeout.ms", 45_000, "Time without a heartbeat after which a member is removed."),
    _ms("group.streams.min.session.timeout.ms", 45_000, "Shortest session timeout that a streams group may be given."),
    _ms("group.streams.max.session.timeout.ms", 60_000, "Longest session timeout that a streams group may be given."),
    _ms("group.streams.heartbeat.interval.ms", 5_000, "Time between heartbeats, sent to the members."),
    _ms("group.streams.min.heartbeat.interval.ms", 5_000, "Shortest heartbeat interval that a group may be given."),
    _ms("group.streams.max.heartbeat.interval.ms", 15_000, "Longest heartbeat interval that a group may be given."),
    ConfigDef(
        "group.streams.assignment.interval.ms",
        INT,
        1_000,
        "Least time between two assignments of a streams group.",
        at_least(0),
        "ms",
        UpdateMode.CLUSTER_WIDE,
    ),
    _ms("group.streams.min.assignment.interval.ms", 0, "Shortest assignment interval that a group may be given.", 0),
    _ms("group.streams.max.assignment.interval.ms", 15_000, "Longest one that a group may be given.", 0),
    _ms(
        "group.streams.initial.rebalance.delay.ms",
        3_000,
        "Wait for more members before the first assignment of an empty streams group.",
        0,
    ),
    ConfigDef("group.streams.max.size", INT, (1 << 31) - 1, "Most members of a streams group.", at_least(1), "members"),
    ConfigDef(
        "group.streams.num.standby.replicas",
        INT,
        0,
        "Standby replicas of each task with state.",
        at_least(0),
        "replicas",
    ),
    ConfigDef(
        "group.streams.max.standby.replicas", INT, 2, "Most that a streams group may be given.", at_least(0), "replicas"
    ),
    ConfigDef("group.streams.assignors", ConfigType.LIST, ("sticky",), "The assignor of streams groups; there is one."),
    ConfigDef(
        "group.streams.rack.aware.assignment.tags",
        ConfigType.LIST,
        (),
        "Client tags that the members of streams groups must have. As in Kafka 4.4.0, they do not move any task.",
    ),
)
