"""Share groups and their coordinator (KIP-932; Kafka's `ShareGroupConfig`, `ShareCoordinatorConfig`)."""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, UpdateMode, at_least

INT = ConfigType.INT


def _ms(name: str, default: int, doc: str, low: int = 1, high: int | None = None) -> ConfigDef:
    return ConfigDef(name, INT, default, doc, at_least(low, high), "ms")


def _number(name: str, default: int, doc: str, low: int, high: int | None, unit: str) -> ConfigDef:
    return ConfigDef(name, INT, default, doc, at_least(low, high), unit)


GROUP_DEFS: tuple[ConfigDef, ...] = (
    _ms("group.share.session.timeout.ms", 45_000, "Time without a heartbeat after which a share consumer is removed."),
    _ms("group.share.min.session.timeout.ms", 45_000, "Shortest session timeout that a share group may be given."),
    _ms("group.share.max.session.timeout.ms", 60_000, "Longest session timeout that a share group may be given."),
    _ms("group.share.heartbeat.interval.ms", 5_000, "Time between heartbeats, sent to share consumers."),
    _ms("group.share.min.heartbeat.interval.ms", 5_000, "Shortest heartbeat interval that a share group may be given."),
    _ms("group.share.max.heartbeat.interval.ms", 15_000, "Longest heartbeat interval that a share group may be given."),
    ConfigDef(
        "group.share.assignment.interval.ms",
        INT,
        1_000,
        "Least time between two assignments of a share group.",
        at_least(0),
        "ms",
        UpdateMode.CLUSTER_WIDE,
    ),
    _ms(
        "group.share.min.assignment.interval.ms", 0, "Shortest assignment interval that a share group may be given.", 0
    ),
    _ms("group.share.max.assignment.interval.ms", 15_000, "Longest one that a share group may be given.", 0),
    _number("group.share.max.size", 200, "Most members of a share group.", 1, 1000, "members"),
    ConfigDef(
        "group.share.assignors",
        ConfigType.LIST,
        ("simple",),
        "The assignor of share groups; there is one.",
    ),
    _number("group.share.delivery.count.limit", 5, "How often a record is delivered at most.", 2, 10, "deliveries"),
    _number("group.share.min.delivery.count.limit", 2, "Lowest limit that a group may be given.", 2, 5, "deliveries"),
    _number("group.share.max.delivery.count.limit", 10, "Highest one that a group may be given.", 5, 25, "deliveries"),
    _ms("group.share.record.lock.duration.ms", 30_000, "How long a consumer holds records.", 1000, 3_600_000),
    _ms("group.share.min.record.lock.duration.ms", 15_000, "Shortest that a group may be given.", 1000, 30_000),
    _ms("group.share.max.record.lock.duration.ms", 60_000, "Longest that a group may be given.", 30_000, 3_600_000),
    _number(
        "group.share.partition.max.record.locks",
        2000,
        "Most records of a partition that are in flight at once for a share group.",
        100,
        10_000,
        "records",
    ),
    _number(
        "group.share.min.partition.max.record.locks", 100, "Least that a group may be given.", 100, 2000, "records"
    ),
    _number(
        "group.share.max.partition.max.record.locks", 4000, "Most that a group may be given.", 2000, 10_000, "records"
    ),
    _number("group.share.max.share.sessions", 2000, "Most share sessions of a broker.", 1, None, "sessions"),
    ConfigDef(
        "errors.deadletterqueue.auto.create.topics.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether a dead letter queue that a share group names is created when it is first needed (KIP-1191).",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigDef(
        "errors.deadletterqueue.topic.name.prefix",
        ConfigType.STRING,
        "dlq.",
        "How the names of dead letter queues begin; empty: any name (KIP-1191).",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
)

SHARE_DEFS: tuple[ConfigDef, ...] = (
    *GROUP_DEFS,
    _number(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Updates of a share partition on `__share_group_state` between two snapshots of it.",
        0,
        500,
        "records",
    ),
    _number(
        "share.coordinator.load.buffer.size",
        5 << 20,
        "Size of reads while a share coordinator loads `__share_group_state`.",
        1,
        None,
        "bytes",
    ),
    ConfigDef(
        "share.coordinator.write.timeout.ms",
        INT,
        5000,
        "How long the answer of a share coordinator waits until what it has written is committed.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        300_000,
        "Time between two removals of what `__share_group_state` no longer needs.",
        at_least(1),
        "ms",
        internal=True,
    ),
    ConfigDef(
        "share.coordinator.state.topic.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of `__share_group_state`.",
        at_least(1),
        "partitions",
    ),
    ConfigDef(
        "share.coordinator.state.topic.replication.factor",
        ConfigType.SHORT,
        1,
        "Replicas of `__share_group_state`.",
        at_least(1),
        "replicas",
    ),
    ConfigDef(
        "share.coordinator.state.topic.min.isr",
        ConfigType.SHORT,
        1,
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
