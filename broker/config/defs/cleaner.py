"""Broker configurations of the log cleaner, which compacts (`CleanerConfig`)."""

from __future__ import annotations

from broker.config.definition import HOUR_MS, LONG_MAX, SECOND_MS, ConfigDef, ConfigType, UpdateMode, at_least

INT, LONG, BOOLEAN, DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.DOUBLE
CLUSTER = UpdateMode.CLUSTER_WIDE

CLEANER_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef("log.cleaner.enable", BOOLEAN, True, "Whether topics with the `compact` policy are compacted."),
    ConfigDef("log.cleaner.threads", INT, 1, "Worker threads of the cleaner.", at_least(0), "threads", mode=CLUSTER),
    ConfigDef(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "Limit of the cleaner's reading and writing together.",
        unit="bytes/s",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 << 20,
        "Memory for the cleaner's map of keys, over all its threads.",
        unit="bytes",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.io.buffer.size",
        INT,
        512 << 10,
        "Memory for the cleaner's read and write buffers, over all its threads. No effect here.",
        at_least(0),
        "bytes",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the map of keys may get. Higher compacts more in one pass and finds keys more slowly.",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.backoff.ms",
        LONG,
        15 * SECOND_MS,
        "Pause of the cleaner when there was nothing to do.",
        at_least(0),
        "ms",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Default of the topics' `min.cleanable.dirty.ratio`.",
        at_least(0, 1),
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.delete.retention.ms",
        LONG,
        24 * HOUR_MS,
        "Default of the topics' `delete.retention.ms`: how long tombstones stay.",
        at_least(0),
        "ms",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "Default of the topics' `min.compaction.lag.ms`.",
        at_least(0),
        "ms",
        mode=CLUSTER,
    ),
    ConfigDef(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Default of the topics' `max.compaction.lag.ms`.",
        at_least(1),
        "ms",
        mode=CLUSTER,
    ),
)
