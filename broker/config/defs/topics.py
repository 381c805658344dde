"""The topic configurations of Kafka 4.4 (`LogConfig`), in its order of definition, which is the order of checking.

A topic without a value of its own takes that of the first synonym set on the broker (`ServerTopicConfigSynonyms`).
"""

from __future__ import annotations

import re

from broker.config.definition import (
    COMPRESSION_TYPES,
    DAY_MS,
    GZIP_LEVEL,
    HOUR_MS,
    LARGEST_RECORD,
    LONG_MAX,
    LZ4_LEVEL,
    MINUTE_MS,
    TIMESTAMP_TYPES,
    ZSTD_LEVEL,
    Check,
    ConfigDef,
    ConfigType,
    Synonym,
    Value,
    at_least,
    each_of,
    one_of,
    to_text,
)

_REPLICA = r"([0-9]+:[0-9]+)?"


def _throttled(name: str) -> Check:
    shape = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def refuse(value: Value) -> tuple[object, str] | None:
        entries = value if isinstance(value, tuple) else ()
        if entries == ("*",) or all(re.fullmatch(_REPLICA, entry) for entry in entries):
            return None
        complaint = f"{name} must be the literal '*' or a list of replicas in the following format: {shape}"
        return f"[{(to_text(entries) or '').replace(',', ', ')}]", complaint

    return Check(refuse, f"* or {shape}")


def _throttle(name: str, role: str) -> ConfigDef:
    doc = (
        f"Replicas whose replication is throttled on the {role} side, at `{role}.replication.throttled.rate`, as long "
        "as they are not in sync: `*` for all, or partition:broker pairs."
    )
    return ConfigDef(name, ConfigType.LIST, (), doc, _throttled(name))


INT, LONG, DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE
BOOLEAN, STRING, LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST


def _log(name: str, factor: int = 1) -> Synonym:
    return Synonym(f"log.{name}", factor)


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


TOPIC_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "segment.bytes",
        INT,
        1 << 30,
        "Size at which the active segment is closed and a new one started. Retention and compaction work on whole "
        "segments, so a smaller size lets them act sooner at the price of more files.",
        at_least(1 << 20),
        "bytes",
        synonyms=(_log("segment.bytes"),),
    ),
    ConfigDef(
        "segment.ms",
        LONG,
        7 * DAY_MS,
        "Age at which the active segment is closed even if it is not full, so that retention and compaction can reach "
        "its records.",
        at_least(1),
        "ms",
        synonyms=(_log("roll.ms"), _log("roll.hours", HOUR_MS)),
    ),
    ConfigDef(
        "segment.jitter.ms",
        LONG,
        0,
        "Upper bound of a random time taken off `segment.ms` per segment, so that many partitions do not roll at once.",
        at_least(0),
        "ms",
        synonyms=(_log("roll.jitter.ms"), _log("roll.jitter.hours", HOUR_MS)),
    ),
    ConfigDef(
        "segment.index.bytes",
        INT,
        10 << 20,
        "Largest size of a segment's offset index; a full index closes the segment.",
        at_least(4),
        "bytes",
        synonyms=(_log("index.size.max.bytes"),),
    ),
    ConfigDef(
        "flush.messages",
        LONG,
        LONG_MAX,
        "Records appended to a partition before it is forced to disk. With 1 every append is on disk before it is "
        "acknowledged; the default leaves flushing to the operating system.",
        at_least(1),
        "records",
        synonyms=(_log("flush.interval.messages"),),
    ),
    ConfigDef(
        "flush.ms",
        LONG,
        LONG_MAX,
        "Longest time that records of a partition wait before they are forced to disk.",
        at_least(0),
        "ms",
        synonyms=(_log("flush.interval.ms"), _log("flush.scheduler.interval.ms")),
    ),
    ConfigDef(
        "retention.bytes",
        LONG,
        -1,
        "Size of a partition beyond which its oldest segments are deleted under the `delete` policy; -1 for no limit.",
        unit="bytes",
        synonyms=(_log("retention.bytes"),),
    ),
    ConfigDef(
        "retention.ms",
        LONG,
        7 * DAY_MS,
        "Time for which records are kept under the `delete` policy; -1 keeps them without limit of time.",
        at_least(-1),
        "ms",
        synonyms=(_log("retention.ms"), _log("retention.minutes", MINUTE_MS), _log("retention.hours", HOUR_MS)),
    ),
    ConfigDef(
        "max.message.bytes",
        INT,
        (1 << 20) + 12,
        "Largest record batch that a producer may append, after compression.",
        at_least(0),
        "bytes",
        synonyms=_same("message.max.bytes"),
    ),
    ConfigDef(
        "max.decompressed.message.bytes",
        INT,
        LARGEST_RECORD,
        "Largest record in a compressed batch, after decompression; a batch with a larger one is refused.",
        at_least(1, LARGEST_RECORD),
        "bytes",
        synonyms=_same("max.decompressed.message.bytes"),
    ),
    ConfigDef(
        "index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two entries of the offset index. Fewer bytes: less reading, but a larger index.",
        at_least(0),
        "bytes",
        synonyms=(_log("index.interval.bytes"),),
    ),
    ConfigDef(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        "Time for which compaction keeps a tombstone, and with it the span in which a reader that started at offset 0 "
        "must finish to see every deletion.",
        at_least(0),
        "ms",
        synonyms=(_log("cleaner.delete.retention.ms"),),
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        LONG,
        0,
        "Time for which a record stays untouched by compaction.",
        at_least(0),
        "ms",
        synonyms=(_log("cleaner.min.compaction.lag.ms"),),
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Time after which a record must become subject to compaction, however clean the log is.",
        at_least(1),
        "ms",
        synonyms=(_log("cleaner.max.compaction.lag.ms"),),
    ),
    ConfigDef(
        "file.delete.delay.ms",
        LONG,
        MINUTE_MS,
        "Time between taking a file out of the log and removing it from the disk.",
        at_least(0),
        "ms",
        synonyms=(_log("segment.delete.delay.ms"),),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "Part of a log that must be uncompacted before the cleaner takes it up.",
        at_least(0, 1),
        synonyms=(_log("cleaner.min.cleanable.ratio"),),
    ),
    ConfigDef(
        "cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: `delete` drops them by time and size, `compact` keeps the last record of every "
        "key; both may be given.",
        each_of("compact", "delete"),
        synonyms=(_log("cleanup.policy"),),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica outside the in-sync set may become leader when no other is left, which may lose records. "
        "No effect here.",
        synonyms=_same("unclean.leader.election.enable"),
    ),
    ConfigDef(
        "min.insync.replicas",
        INT,
        1,
        "In-sync replicas without which an append with acks=all is refused; never more than the partition has, as in "
        "Kafka.",
        at_least(1),
        "replicas",
        synonyms=_same("min.insync.replicas"),
    ),
    ConfigDef(
        "compression.type",
        STRING,
        "producer",
        "Codec in which batches are stored; `producer` keeps that of the producer, any other recompresses.",
        one_of(*COMPRESSION_TYPES),
        synonyms=_same("compression.type"),
    ),
    ConfigDef(
        "compression.gzip.level",
        INT,
        -1,
        "Level used where `compression.type` is gzip; -1 is the library's own default.",
        GZIP_LEVEL,
        synonyms=_same("compression.gzip.level"),
    ),
    ConfigDef(
        "compression.lz4.level",
        INT,
        9,
        "Level used where `compression.type` is lz4.",
        LZ4_LEVEL,
        synonyms=_same("compression.lz4.level"),
    ),
    ConfigDef(
        "compression.zstd.level",
        INT,
        3,
        "Level used where `compression.type` is zstd.",
        ZSTD_LEVEL,
        synonyms=_same("compression.zstd.level"),
    ),
    ConfigDef(
        "preallocate",
        BOOLEAN,
        False,
        "Whether a new segment's file takes its full size on disk at once. No effect here.",
        synonyms=(_log("preallocate"),),
    ),
    ConfigDef(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record bears the producer's time (CreateTime) or that of its append (LogAppendTime).",
        one_of(*TIMESTAMP_TYPES),
        synonyms=(_log("message.timestamp.type"),),
    ),
    ConfigDef(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a CreateTime timestamp may lie before the broker's clock; older records are refused "
        "(INVALID_TIMESTAMP).",
        at_least(0),
        "ms",
        synonyms=(_log("message.timestamp.before.max.ms"),),
    ),
    ConfigDef(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far a CreateTime timestamp may lie after the broker's clock; later records are refused "
        "(INVALID_TIMESTAMP).",
        at_least(0),
        "ms",
        synonyms=(_log("message.timestamp.after.max.ms"),),
    ),
    _throttle("leader.replication.throttled.replicas", "leader"),
    _throttle("follower.replication.throttled.replicas", "follower"),
    ConfigDef(
        "remote.storage.enable",
        BOOLEAN,
        False,
        "Tiered storage. There is none here: `true` is refused, as a Kafka broker without it does.",
    ),
    ConfigDef(
        "local.retention.ms",
        LONG,
        -2,
        "Time that a tiered topic's segments stay on local disk; -2 means `retention.ms`. No effect here.",
        at_least(-2),
        "ms",
        synonyms=(_log("local.retention.ms"),),
    ),
    ConfigDef(
        "local.retention.bytes",
        LONG,
        -2,
        "Bytes of a tiered topic's partition kept on local disk; -2 means `retention.bytes`. No effect here.",
        at_least(-2),
        "bytes",
        synonyms=(_log("local.retention.bytes"),),
    ),
    ConfigDef(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "Stops copying a tiered topic to remote storage. No effect here.",
    ),
    ConfigDef(
        "remote.copy.lag.ms",
        LONG,
        0,
        "Longest time that a closed segment of a tiered topic waits to be copied; -1 for no limit. No effect here.",
        at_least(-1),
        "ms",
        synonyms=(_log("remote.copy.lag.ms"),),
    ),
    ConfigDef(
        "remote.copy.lag.bytes",
        LONG,
        -1,
        "Most bytes of a tiered topic's partition that wait to be copied; -1 for no limit. No effect here.",
        at_least(-1),
        "bytes",
        synonyms=(_log("remote.copy.lag.bytes"),),
    ),
    ConfigDef(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Removes a topic's remote data when its tiering is switched off. No effect here.",
    ),
    ConfigDef(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        False,
        "Whether share groups may write what they give up to this topic (KIP-1191).",
    ),
    ConfigDef(
        "internal.segment.bytes",
        INT,
        None,
        "For tests: overrides `segment.bytes` with no lower bound.",
        unit="bytes",
        internal=True,
    ),
)
