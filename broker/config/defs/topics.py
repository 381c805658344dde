"""The topic configurations of Kafka 4.4 (`LogConfig`), in its order of definition, which is the order of checking.

A topic without a value of its own takes that of the first synonym set on the broker (`ServerTopicConfigSynonyms`).
"""

from __future__ import annotations

import re

from broker.config.definition import (
    CLUSTER,
    DAY_MS,
    HOUR_MS,
    LARGEST_RECORD,
    LONG_MAX,
    MINUTE_MS,
    Check,
    ConfigRow,
    Rows,
    Synonym,
    Value,
    at_least,
    boolean,
    double,
    each_of,
    entries,
    integer,
    long,
    one_of,
    string,
    to_text,
)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

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


def _throttled_replicas(role: str) -> ConfigRow:
    doc = (
        f"Replicas whose replication is throttled on the {role} side, at `{role}.replication.throttled.rate`, as long "
        "as they are not in sync: `*` for all, or partition:broker pairs."
    )
    return entries((), doc, _throttled(f"{role}.replication.throttled.replicas"))


def _gzip_level(value: Value) -> tuple[object, str] | None:
    right = value == -1 or (isinstance(value, int) and 1 <= value <= 9)
    return None if right else (value, "Value must be between 1 and 9 or equal to -1")


def _log(name: str, factor: int = 1) -> Synonym:
    return Synonym(f"log.{name}", factor)


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


TOPICS: Rows = {
    "segment.bytes": integer(
        1 << 30,
        "Size at which the active segment is closed and a new one started. Retention and compaction work on whole "
        "segments, so a smaller size lets them act sooner at the price of more files.",
        at_least(1 << 20),
        synonyms=(_log("segment.bytes"),),
    ),
    "segment.ms": long(
        7 * DAY_MS,
        "Age at which the active segment is closed even if it is not full, so that retention and compaction can reach "
        "its records.",
        at_least(1),
        synonyms=(_log("roll.ms"), _log("roll.hours", HOUR_MS)),
    ),
    "segment.jitter.ms": long(
        0,
        "Upper bound of a random time taken off `segment.ms` per segment, so that many partitions do not roll at once.",
        at_least(0),
        synonyms=(_log("roll.jitter.ms"), _log("roll.jitter.hours", HOUR_MS)),
    ),
    "segment.index.bytes": integer(
        10 << 20,
        "Largest size of a segment's offset index; a full index closes the segment.",
        at_least(4),
        synonyms=(_log("index.size.max.bytes"),),
    ),
    "flush.messages": long(
        LONG_MAX,
        "Records appended to a partition before it is forced to disk. With 1 every append is on disk before it is "
        "acknowledged; the default leaves flushing to the operating system.",
        at_least(1),
        "records",
        synonyms=(_log("flush.interval.messages"),),
    ),
    "flush.ms": long(
        LONG_MAX,
        "Longest time that records of a partition wait before they are forced to disk.",
        at_least(0),
        synonyms=(_log("flush.interval.ms"), _log("flush.scheduler.interval.ms")),
    ),
    "retention.bytes": long(
        -1,
        "Size of a partition beyond which its oldest segments are deleted under the `delete` policy; -1 for no limit.",
        synonyms=(_log("retention.bytes"),),
    ),
    "retention.ms": long(
        7 * DAY_MS,
        "Time for which records are kept under the `delete` policy; -1 keeps them without limit of time.",
        at_least(-1),
        synonyms=(_log("retention.ms"), _log("retention.minutes", MINUTE_MS), _log("retention.hours", HOUR_MS)),
    ),
    "max.message.bytes": integer(
        (1 << 20) + 12,
        "Largest record batch that a producer may append, after compression.",
        at_least(0),
        synonyms=_same("message.max.bytes"),
    ),
    "max.decompressed.message.bytes": integer(
        LARGEST_RECORD,
        "Largest record in a compressed batch, after decompression; a batch with a larger one is refused.",
        at_least(1, LARGEST_RECORD),
        synonyms=_same("max.decompressed.message.bytes"),
    ),
    "index.interval.bytes": integer(
        4096,
        "Bytes of log between two entries of the offset index. Fewer bytes: less reading, but a larger index.",
        at_least(0),
        synonyms=(_log("index.interval.bytes"),),
    ),
    "delete.retention.ms": long(
        DAY_MS,
        "Time for which compaction keeps a tombstone, and with it the span in which a reader that started at offset 0 "
        "must finish to see every deletion.",
        at_least(0),
        synonyms=(_log("cleaner.delete.retention.ms"),),
    ),
    "min.compaction.lag.ms": long(
        0,
        "Time for which a record stays untouched by compaction.",
        at_least(0),
        synonyms=(_log("cleaner.min.compaction.lag.ms"),),
    ),
    "max.compaction.lag.ms": long(
        LONG_MAX,
        "Time after which a record must become subject to compaction, however clean the log is.",
        at_least(1),
        synonyms=(_log("cleaner.max.compaction.lag.ms"),),
    ),
    "file.delete.delay.ms": long(
        MINUTE_MS,
        "Time between taking a file out of the log and removing it from the disk.",
        at_least(0),
        synonyms=(_log("segment.delete.delay.ms"),),
    ),
    "min.cleanable.dirty.ratio": double(
        0.5,
        "Part of a log that must be uncompacted before the cleaner takes it up.",
        at_least(0, 1),
        synonyms=(_log("cleaner.min.cleanable.ratio"),),
    ),
    "cleanup.policy": entries(
        ("delete",),
        "What happens to old segments: `delete` drops them by time and size, `compact` keeps the last record of every "
        "key; both may be given.",
        each_of("compact", "delete"),
        synonyms=(_log("cleanup.policy"),),
    ),
    "unclean.leader.election.enable": boolean(
        False,
        "Whether a replica outside the in-sync set may become leader when no other is left, which may lose records.",
        synonyms=_same("unclean.leader.election.enable"),
    ),
    "min.insync.replicas": integer(
        1,
        "In-sync replicas without which an append with acks=all is refused; never more than the partition has, as in "
        "Kafka.",
        at_least(1),
        "replicas",
        synonyms=_same("min.insync.replicas"),
    ),
    "compression.type": string(
        "producer",
        "Codec in which batches are stored; `producer` keeps that of the producer, any other recompresses.",
        one_of(*COMPRESSION_TYPES),
        synonyms=_same("compression.type"),
    ),
    "compression.gzip.level": integer(
        -1,
        "Level used where `compression.type` is gzip; -1 is the library's own default.",
        Check(_gzip_level, "from 1 to 9, or -1"),
        synonyms=_same("compression.gzip.level"),
    ),
    "compression.lz4.level": integer(
        9, "Level used where `compression.type` is lz4.", at_least(1, 17), synonyms=_same("compression.lz4.level")
    ),
    "compression.zstd.level": integer(
        3,
        "Level used where `compression.type` is zstd.",
        at_least(-131072, 22),
        synonyms=_same("compression.zstd.level"),
    ),
    "preallocate": boolean(
        False,
        "Whether a new segment's file takes its full size on disk at once.",
        synonyms=(_log("preallocate"),),
        has_effect=False,
    ),
    "message.timestamp.type": string(
        "CreateTime",
        "Whether a record bears the producer's time (CreateTime) or that of its append (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=(_log("message.timestamp.type"),),
    ),
    "message.timestamp.before.max.ms": long(
        LONG_MAX,
        "How far a CreateTime timestamp may lie before the broker's clock; older records are refused "
        "(INVALID_TIMESTAMP).",
        at_least(0),
        synonyms=(_log("message.timestamp.before.max.ms"),),
    ),
    "message.timestamp.after.max.ms": long(
        HOUR_MS,
        "How far a CreateTime timestamp may lie after the broker's clock; later records are refused "
        "(INVALID_TIMESTAMP).",
        at_least(0),
        synonyms=(_log("message.timestamp.after.max.ms"),),
    ),
    **{f"{role}.replication.throttled.replicas": _throttled_replicas(role) for role in ("leader", "follower")},
    "remote.storage.enable": boolean(
        False,
        "Whether sealed segments are copied to remote storage, and may go from here then (docs/tiered-storage.md).",
    ),
    "local.retention.ms": long(
        -2,
        "Time that a tiered topic's segments stay on local disk; -2 means `retention.ms`.",
        at_least(-2),
        synonyms=(_log("local.retention.ms"),),
    ),
    "local.retention.bytes": long(
        -2,
        "Bytes of a tiered topic's partition kept on local disk; -2 means `retention.bytes`.",
        at_least(-2),
        synonyms=(_log("local.retention.bytes"),),
    ),
    "remote.log.copy.disable": boolean(
        False, "Stops copying a tiered topic to remote storage; what is there can still be read."
    ),
    "remote.copy.lag.ms": long(
        0,
        "Age of its newest record at which a sealed segment is copied to remote storage, unless "
        "`remote.copy.lag.bytes` has it copied before; 0 at once, -1 the local retention time.",
        at_least(-1),
        synonyms=(_log("remote.copy.lag.ms"),),
    ),
    "remote.copy.lag.bytes": long(
        -1,
        "Bytes behind a sealed segment at which it is copied to remote storage, unless `remote.copy.lag.ms` has it "
        "copied before; 0 at once, -1 the local retention size.",
        at_least(-1),
        synonyms=(_log("remote.copy.lag.bytes"),),
    ),
    "remote.log.delete.on.disable": boolean(
        False, "Removes a topic's remote data when its tiering is switched off; without it that is refused."
    ),
    "errors.deadletterqueue.group.enable": boolean(
        False, "Whether share groups may write what they give up to this topic (KIP-1191)."
    ),
    "internal.segment.bytes": integer(None, "For tests: overrides `segment.bytes` with no lower bound.", internal=True),
}

_STRATEGIES = tuple(
    f"io.confluent.kafka.serializers.subject.{name}NameStrategy" for name in ("Topic", "Record", "TopicRecord")
)


def _of_schemas(side: str) -> Rows:
    return {
        f"confluent.{side}.schema.validation": boolean(
            False,
            f"Whether a record is refused (INVALID_RECORD) whose {side} names no schema of the {side}s' subject "
            "(docs/registry.md).",
            internal=True,
        ),
        f"confluent.{side}.subject.name.strategy": string(
            _STRATEGIES[0],
            f"Which subject the schemas of {side}s have: by the topic, by the record's name, or by both.",
            one_of(*_STRATEGIES),
            internal=True,
        ),
    }


OF_SCHEMAS: Rows = _of_schemas("key") | _of_schemas("value")
"""Confluent's, which Kafka does not know: described where they are set, and only settable where there is a registry."""


def defaults_of(*names: str) -> Rows:
    """The broker's configurations that give these configurations of topics their defaults, by the same rules."""
    return {TOPICS[name].synonyms[0].name: _default_of(name) for name in names}


def _default_of(name: str) -> ConfigRow:
    return TOPICS[name]._replace(doc=f"Default of the topics' `{name}`.", mode=CLUSTER, synonyms=())
