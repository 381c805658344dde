"""Broker configurations of the node itself, of topic creation and of replication."""

from __future__ import annotations

from broker.config.definition import (
    COMPRESSION_TYPES,
    GZIP_LEVEL,
    LARGEST_RECORD,
    LZ4_LEVEL,
    SECOND_MS,
    ZSTD_LEVEL,
    ConfigDef,
    ConfigType,
    UpdateMode,
    at_least,
    each_of,
    one_of,
)

INT, LONG, BOOLEAN, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.STRING
CLUSTER = UpdateMode.CLUSTER_WIDE

NODE_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "node.id",
        INT,
        1,
        "Id of this node; the same as `broker.id` if both are set. To be set in a cluster.",
        at_least(0),
    ),
    ConfigDef("broker.id", INT, -1, "Older name of `node.id`; -1 is unset."),
    ConfigDef(
        "process.roles",
        ConfigType.LIST,
        ("broker",),
        "Roles of a KRaft node. With `broker` alone, and controllers named in `controller.quorum.bootstrap.servers` or "
        "`controller.quorum.voters`, the node is a broker of their cluster. With `controller` alone it is the only "
        "controller of other nodes, and no broker. Otherwise it stands alone.",
        each_of("broker", "controller"),
    ),
    ConfigDef(
        "config.providers",
        ConfigType.LIST,
        (),
        "Names of providers of values that are kept elsewhere, written as `${name:path:key}` or `${name:key}`. "
        "`config.providers.<name>.class` is Kafka's `EnvVarConfigProvider` (with `.param.allowlist.pattern`), "
        "`FileConfigProvider` or `DirectoryConfigProvider` (both with `.param.allowed.paths`). What is set at run time "
        "has no effect.",
        mode=CLUSTER,
    ),
    ConfigDef(
        "broker.rack", STRING, None, "Name of the rack, sent to clients so that they can fetch from a near node."
    ),
)

TOPIC_DEFAULT_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "num.partitions",
        INT,
        1,
        "Partitions of a topic created without a number of its own.",
        at_least(1),
        "partitions",
    ),
    ConfigDef(
        "default.replication.factor",
        INT,
        1,
        "Replicas of a topic created without a number of its own.",
        unit="replicas",
    ),
    ConfigDef(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether asking for the metadata of an unknown topic creates it, where the client allows that too.",
    ),
    ConfigDef("delete.topic.enable", BOOLEAN, True, "Whether DeleteTopics is allowed."),
    ConfigDef(
        "message.max.bytes",
        INT,
        (1 << 20) + 12,
        "Default of the topics' `max.message.bytes`: the largest record batch, after compression.",
        at_least(0),
        "bytes",
        CLUSTER,
    ),
    ConfigDef(
        "max.decompressed.message.bytes",
        INT,
        LARGEST_RECORD,
        "Default of the topics' `max.decompressed.message.bytes`: the largest record, after decompression.",
        at_least(1, LARGEST_RECORD),
        "bytes",
        CLUSTER,
    ),
    ConfigDef(
        "compression.type",
        STRING,
        "producer",
        "Default of the topics' `compression.type`.",
        one_of(*COMPRESSION_TYPES),
        mode=CLUSTER,
    ),
    ConfigDef(
        "compression.gzip.level", INT, -1, "Default of the topics' `compression.gzip.level`.", GZIP_LEVEL, mode=CLUSTER
    ),
    ConfigDef(
        "compression.lz4.level", INT, 9, "Default of the topics' `compression.lz4.level`.", LZ4_LEVEL, mode=CLUSTER
    ),
    ConfigDef(
        "compression.zstd.level", INT, 3, "Default of the topics' `compression.zstd.level`.", ZSTD_LEVEL, mode=CLUSTER
    ),
)

REPLICATION_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "min.insync.replicas",
        INT,
        1,
        "Default of the topics' `min.insync.replicas`.",
        at_least(1),
        "replicas",
        CLUSTER,
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Default of the topics' `unclean.leader.election.enable`. No effect here.",
        mode=CLUSTER,
    ),
    ConfigDef(
        "replica.lag.time.max.ms",
        LONG,
        30 * SECOND_MS,
        "Time without having caught up after which a follower leaves the in-sync replicas.",
        unit="ms",
    ),
    ConfigDef(
        "replica.socket.timeout.ms",
        INT,
        30 * SECOND_MS,
        "Time a follower waits for the leader's answer.",
        unit="ms",
    ),
    ConfigDef(
        "replica.fetch.max.bytes",
        INT,
        1 << 20,
        "Bytes a follower asks of one partition. A larger batch still comes.",
        at_least(0),
        "bytes",
    ),
    ConfigDef(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "Longest wait of a follower's fetch at the leader.",
        unit="ms",
    ),
    ConfigDef(
        "replica.fetch.min.bytes",
        INT,
        1,
        "Bytes that end a follower's wait at the leader.",
        unit="bytes",
    ),
    ConfigDef(
        "replica.fetch.response.max.bytes",
        INT,
        10 << 20,
        "Bytes a follower asks for in one fetch over all its partitions.",
        at_least(0),
        "bytes",
    ),
    ConfigDef(
        "replica.fetch.backoff.ms",
        INT,
        SECOND_MS,
        "Pause of a follower after a failed fetch.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5 * SECOND_MS,
        "Time between two writes of the high watermarks.",
        unit="ms",
    ),
)
