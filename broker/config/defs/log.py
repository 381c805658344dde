"""Broker configurations of topics, of their logs and of the log cleaner (`ServerLogConfigs`, `CleanerConfig`).

Most are the default of a configuration of topics, and are made of its row.
"""

from __future__ import annotations

from broker.config.definition import (
    CLUSTER,
    LONG_MAX,
    MINUTE_MS,
    NON_EMPTY,
    PER_BROKER,
    SECOND_MS,
    Rows,
    at_least,
    boolean,
    double,
    entries,
    integer,
    long,
    string,
)
from broker.config.defs.topics import defaults_of

TOPICS: Rows = {
    "num.partitions": integer(1, "Partitions of a topic created without a number of its own.", at_least(1)),
    "default.replication.factor": integer(
        1, "Replicas of a topic created without a number of its own.", unit="replicas"
    ),
    "auto.create.topics.enable": boolean(
        True, "Whether asking for the metadata of an unknown topic creates it, where the client allows that too."
    ),
    "delete.topic.enable": boolean(True, "Whether DeleteTopics is allowed."),
    **defaults_of(
        "max.message.bytes",
        "max.decompressed.message.bytes",
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    ),
}

LOG: Rows = {
    "log.dir": entries(("./data",), "Folder for the partitions' data where `log.dirs` is not set."),
    "log.dirs": entries(None, "Comma separated folders for the partitions' data. Without it `log.dir` is used."),
    "cordoned.log.dirs": entries(
        (), "Folders of `log.dirs` that get no new partitions, or `*` for all of them (KIP-1066).", mode=PER_BROKER
    ),
    **defaults_of("segment.bytes"),
    "log.roll.ms": long(None, "Default of the topics' `segment.ms`; without it `log.roll.hours` counts.", mode=CLUSTER),
    "log.roll.hours": integer(168, "Age at which a segment is closed, where `log.roll.ms` is not set.", at_least(1)),
    "log.roll.jitter.ms": long(
        None, "Default of the topics' `segment.jitter.ms`; without it `log.roll.jitter.hours` counts.", mode=CLUSTER
    ),
    "log.roll.jitter.hours": integer(
        0, "Upper bound of the random time taken off the roll time, where `log.roll.jitter.ms` is not set.", at_least(0)
    ),
    "log.retention.ms": long(
        None,
        "Default of the topics' `retention.ms`, -1 for no limit; without it `log.retention.minutes` counts.",
        mode=CLUSTER,
    ),
    "log.retention.minutes": integer(
        None, "Retention time where `log.retention.ms` is not set; without it `log.retention.hours` counts."
    ),
    "log.retention.hours": integer(
        168, "Retention time where neither `log.retention.ms` nor `log.retention.minutes` is set."
    ),
    **defaults_of("retention.bytes"),
    "log.retention.check.interval.ms": long(
        5 * MINUTE_MS, "Time between two searches for segments that retention no longer keeps.", at_least(1)
    ),
    **defaults_of("cleanup.policy", "segment.index.bytes", "index.interval.bytes", "flush.messages"),
    "log.flush.interval.ms": long(
        None, "Default of the topics' `flush.ms`; without it `log.flush.scheduler.interval.ms` counts.", mode=CLUSTER
    ),
    "log.flush.scheduler.interval.ms": long(
        LONG_MAX, "Time between two searches for partitions that are due to be flushed."
    ),
    "log.flush.offset.checkpoint.interval.ms": integer(
        MINUTE_MS,
        "Time between two writes of the recovery points; recovery after a crash starts from them.",
        at_least(0),
    ),
    "log.flush.start.offset.checkpoint.interval.ms": integer(
        MINUTE_MS, "Time between two writes of the log start offsets.", at_least(0)
    ),
    **defaults_of(
        "file.delete.delay.ms",
        "preallocate",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "local.retention.ms",
        "local.retention.bytes",
        "remote.copy.lag.ms",
        "remote.copy.lag.bytes",
    ),
    "log.initial.task.delay.ms": long(
        30 * SECOND_MS,
        "Time after the start before retention, flushing and checkpoints first run, unless their period is shorter.",
        at_least(0),
        internal=True,
    ),
    "num.recovery.threads.per.data.dir": integer(
        2,
        "Worker threads that recover logs after an unclean stop, for all data folders together.",
        at_least(1),
        "threads",
        mode=CLUSTER,
    ),
}

CLEANER: Rows = {
    "log.cleaner.enable": boolean(True, "Whether topics with the `compact` policy are compacted."),
    "log.cleaner.threads": integer(1, "Worker threads of the cleaner.", at_least(0), mode=CLUSTER),
    "log.cleaner.io.max.bytes.per.second": double(
        1.7976931348623157e308, "Limit of the cleaner's reading and writing together.", unit="bytes/s", mode=CLUSTER
    ),
    "log.cleaner.dedupe.buffer.size": long(
        128 << 20, "Memory for the cleaner's map of keys, over all its threads.", unit="bytes", mode=CLUSTER
    ),
    "log.cleaner.io.buffer.size": integer(
        512 << 10,
        "Memory for the cleaner's read and write buffers, over all its threads.",
        at_least(0),
        "bytes",
        mode=CLUSTER,
        has_effect=False,
    ),
    "log.cleaner.io.buffer.load.factor": double(
        0.9,
        "How full the map of keys may get. Higher compacts more in one pass and finds keys more slowly.",
        mode=CLUSTER,
    ),
    "log.cleaner.backoff.ms": long(
        15 * SECOND_MS, "Pause of the cleaner when there was nothing to do.", at_least(0), mode=CLUSTER
    ),
    **defaults_of("min.cleanable.dirty.ratio", "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms"),
}

TIERED_STORAGE: Rows = {
    "remote.log.storage.system.enable": boolean(
        False, "Tiered storage (docs/tiered-storage.md): whether topics may have `remote.storage.enable`."
    ),
    "remote.log.storage.manager.class.name": string(
        None,
        "Where remote segments are: `folder` or `s3`, or the name of Kafka's `LocalTieredStorage` or of Aiven's "
        "`RemoteStorageManager`, which have the same layouts.",
        NON_EMPTY,
    ),
    "remote.log.storage.manager.impl.prefix": string("rsm.config.", "Prefix of the settings of the store.", NON_EMPTY),
    "remote.log.metadata.manager.impl.prefix": string(
        "rlmm.config.", "Prefix of the settings of `__remote_log_metadata`.", NON_EMPTY
    ),
    "remote.log.manager.task.interval.ms": long(
        30 * SECOND_MS, "Time between two rounds of copies to remote storage, and of removals.", at_least(1)
    ),
    "remote.log.manager.copier.thread.pool.size": integer(
        10, "Partitions that copy segments at the same time.", at_least(1), "partitions", mode=CLUSTER
    ),
    "remote.log.manager.expiration.thread.pool.size": integer(
        10, "Partitions that remove remote segments at the same time.", at_least(1), "partitions", mode=CLUSTER
    ),
    "remote.log.manager.copy.max.bytes.per.second": long(
        LONG_MAX, "Rate of copies to remote storage.", at_least(1), "bytes/s", mode=CLUSTER
    ),
    "remote.log.manager.copy.quota.window.num": integer(11, "Windows that the rate of copies is kept of.", at_least(1)),
    "remote.log.manager.copy.quota.window.size.seconds": integer(1, "Length of such a window.", at_least(1)),
    "remote.log.manager.fetch.max.bytes.per.second": long(
        LONG_MAX, "Rate of reads from remote storage.", at_least(1), "bytes/s", mode=CLUSTER
    ),
    "remote.log.manager.fetch.quota.window.num": integer(11, "Windows that the rate of reads is kept of.", at_least(1)),
    "remote.log.manager.fetch.quota.window.size.seconds": integer(1, "Length of such a window.", at_least(1)),
    "remote.log.reader.threads": integer(
        10, "Reads from remote storage at the same time.", at_least(1), "reads", mode=CLUSTER
    ),
    "remote.log.reader.max.pending.tasks": integer(
        100, "Reads that may wait for their turn; further ones fail (UNKNOWN_SERVER_ERROR).", at_least(1), "reads"
    ),
    "remote.log.index.file.cache.total.size.bytes": long(
        1 << 30,
        "Most bytes of indexes of remote segments that are kept; here in memory, and 64 MiB at most.",
        at_least(1),
        mode=CLUSTER,
    ),
    "remote.fetch.max.wait.ms": integer(
        500, "Longest time that a Fetch waits for remote storage.", at_least(1), mode=CLUSTER
    ),
    "follower.fetch.last.tiered.offset.enable": boolean(
        False,
        "Whether an empty replica begins behind all that is in remote storage, and not where its leader's files begin "
        "(KIP-1023).",
        mode=CLUSTER,
    ),
    "remote.list.offsets.request.timeout.ms": long(
        30 * SECOND_MS, "Longest time that ListOffsets waits for remote storage.", at_least(1), mode=CLUSTER
    ),
}
