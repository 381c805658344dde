"""Broker configurations of transactions and producer ids (`TransactionLogConfig`, `TransactionStateManagerConfig`)."""

from __future__ import annotations

from broker.config.definition import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, ConfigDef, ConfigType, UpdateMode, at_least

INT, BOOLEAN = ConfigType.INT, ConfigType.BOOLEAN
CLUSTER = UpdateMode.CLUSTER_WIDE

TRANSACTION_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        1,
        "Replicas of `__transaction_state`.",
        at_least(1),
        "replicas",
    ),
    ConfigDef(
        "transaction.state.log.min.isr",
        INT,
        1,
        "`min.insync.replicas` of `__transaction_state`.",
        at_least(1),
        "replicas",
    ),
    ConfigDef(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of `__transaction_state`; not to be changed once the topic exists.",
        at_least(1),
        "partitions",
    ),
    ConfigDef(
        "transaction.state.log.segment.bytes",
        INT,
        100 << 20,
        "`segment.bytes` of `__transaction_state`.",
        at_least(1),
        "bytes",
    ),
    ConfigDef(
        "transaction.state.log.load.buffer.size",
        INT,
        5 << 20,
        "Bytes read at a time while a transaction coordinator loads its partition.",
        at_least(1),
        "bytes",
    ),
    ConfigDef(
        "transaction.max.timeout.ms",
        INT,
        15 * MINUTE_MS,
        "Longest transaction timeout that a producer may ask for (INVALID_TRANSACTION_TIMEOUT).",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10 * SECOND_MS,
        "Time between two searches for transactions that are past their timeout.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        HOUR_MS,
        "Time between two searches for transactional ids that are past `transactional.id.expiration.ms`.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a transactional append is checked to belong to an open transaction (KIP-890).",
        mode=CLUSTER,
    ),
    ConfigDef(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether producers may take part in two-phase commit (KIP-939). No effect here.",
    ),
    ConfigDef(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "Time without use after which a transactional id is forgotten.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "Time without an append after which a partition forgets a producer id.",
        at_least(1),
        "ms",
        CLUSTER,
    ),
    ConfigDef(
        "producer.id.expiration.check.interval.ms",
        INT,
        10 * MINUTE_MS,
        "Time between two searches for producer ids to forget.",
        at_least(1),
        "ms",
        internal=True,
    ),
    ConfigDef(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "Pause before the broker asks again to add a partition to a transaction.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "Longest time spent on asking again to add a partition to a transaction.",
        at_least(0),
        "ms",
    ),
)
