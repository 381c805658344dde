"""Broker configurations of groups of each kind, of committed offsets and of transactions (`GroupCoordinatorConfig`)."""

from __future__ import annotations

from broker.config.definition import (
    CLUSTER,
    DAY_MS,
    HOUR_MS,
    INT_MAX,
    MINUTE_MS,
    SECOND_MS,
    Rows,
    at_least,
    boolean,
    each_of,
    entries,
    integer,
    long,
    one_of,
    short,
    string,
)


def _times_of(kind: str) -> Rows:
    """The times of groups of a kind, each with the least and the greatest value that a group may be given."""

    def limited(name: str, values: tuple[int, int, int], low: int, doc: str, noun: str) -> Rows:
        default, least, greatest = values
        allowed = f"{noun} that a {kind} group may be given."
        return {
            f"group.{kind}.{name}": integer(default, doc, at_least(low)),
            f"group.{kind}.min.{name}": integer(least, f"Shortest {allowed}", at_least(low)),
            f"group.{kind}.max.{name}": integer(greatest, f"Longest {allowed}", at_least(low)),
        }

    session = f"Time without a heartbeat after which a member of a {kind} group is removed."
    heartbeat = f"Time between heartbeats, sent to the members of {kind} groups."
    assignment = f"Least time between two assignments of a {kind} group; members that come meanwhile wait (KIP-1263)."
    assignments = limited("assignment.interval.ms", (1_000, 0, 15_000), 0, assignment, "assignment interval")
    altered = f"group.{kind}.assignment.interval.ms"
    return {
        **limited("session.timeout.ms", (45_000, 45_000, 60_000), 1, session, "session timeout"),
        **limited("heartbeat.interval.ms", (5_000, 5_000, 15_000), 1, heartbeat, "heartbeat interval"),
        **assignments,
        altered: assignments[altered]._replace(mode=CLUSTER),
    }


GROUPS: Rows = {
    "group.min.session.timeout.ms": integer(
        6 * SECOND_MS, "Shortest session timeout that a member of a classic group may ask for."
    ),
    "group.max.session.timeout.ms": integer(
        30 * MINUTE_MS, "Longest session timeout that a member of a classic group may ask for."
    ),
    "group.initial.rebalance.delay.ms": integer(
        3 * SECOND_MS, "Wait for more members before the first rebalance of an empty classic group."
    ),
    "group.max.size": integer(INT_MAX, "Most members of a classic group.", at_least(1), "members"),
    "group.coordinator.rebalance.protocols": entries(
        ("classic", "consumer", "streams"),
        "Rebalance protocols offered to groups.",
        each_of("consumer", "classic", "share", "streams"),
    ),
    "group.coordinator.append.linger.ms": integer(
        -1,
        "Time after which a member of a consumer group is answered that joins or changes its subscription (KIP-848); "
        "-1, in Kafka a time that follows the load, is 5 ms.",
        at_least(-1),
    ),
    **_times_of("consumer"),
    "group.consumer.max.size": integer(INT_MAX, "Most members of a consumer group.", at_least(1), "members"),
    "group.consumer.assignors": entries(
        ("uniform", "range"), "Assignors of the consumer groups, on the broker's side; the first is the default."
    ),
    "group.consumer.migration.policy": string(
        "bidirectional",
        "Which way a running group may change between the classic and the consumer protocol.",
        one_of("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True),
    ),
    "group.consumer.regex.refresh.interval.ms": integer(
        10 * MINUTE_MS,
        "Time between two matchings of the subscribed patterns with the topics.",
        at_least(10_000),
        internal=True,
    ),
}

OFFSETS: Rows = {
    "offset.metadata.max.bytes": integer(4096, "Longest note that a client may store with a committed offset."),
    "offsets.commit.timeout.ms": integer(
        5 * SECOND_MS,
        "Time for an offset commit, or another write of a group, to be on enough replicas; else it is refused.",
        at_least(1),
    ),
    "offsets.load.buffer.size": integer(
        5 << 20, "Bytes read at a time while a coordinator loads its partition.", at_least(1), "bytes"
    ),
    "offsets.topic.replication.factor": short(1, "Replicas of `__consumer_offsets`.", at_least(1), "replicas"),
    "offsets.topic.num.partitions": integer(
        50, "Partitions of `__consumer_offsets`; not to be changed once the topic exists.", at_least(1)
    ),
    "offsets.topic.segment.bytes": integer(100 << 20, "`segment.bytes` of `__consumer_offsets`.", at_least(1)),
    "offsets.topic.compression.codec": integer(
        0, "Codec of `__consumer_offsets` by its number in the record batch: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    "offsets.retention.minutes": integer(
        7 * 24 * 60, "Time for which committed offsets outlive their group's last member or subscription.", at_least(1)
    ),
    "offsets.retention.check.interval.ms": long(
        10 * MINUTE_MS, "Time between two searches for expired offsets.", at_least(1)
    ),
}

SHARE_GROUPS: Rows = {
    **_times_of("share"),
    "group.share.max.size": integer(200, "Most members of a share group.", at_least(1, 1000), "members"),
    "group.share.assignors": entries(("simple",), "The assignor of share groups; there is one."),
    "group.share.delivery.count.limit": integer(
        5, "How often a record is delivered at most.", at_least(2, 10), "deliveries"
    ),
    "group.share.min.delivery.count.limit": integer(
        2, "Lowest limit that a group may be given.", at_least(2, 5), "deliveries"
    ),
    "group.share.max.delivery.count.limit": integer(
        10, "Highest one that a group may be given.", at_least(5, 25), "deliveries"
    ),
    "group.share.record.lock.duration.ms": integer(
        30_000, "How long a consumer holds records.", at_least(1000, 3_600_000)
    ),
    "group.share.min.record.lock.duration.ms": integer(
        15_000, "Shortest that a group may be given.", at_least(1000, 30_000)
    ),
    "group.share.max.record.lock.duration.ms": integer(
        60_000, "Longest that a group may be given.", at_least(30_000, 3_600_000)
    ),
    "group.share.partition.max.record.locks": integer(
        2000,
        "Most records of a partition that are in flight at once for a share group.",
        at_least(100, 10_000),
        "records",
    ),
    "group.share.min.partition.max.record.locks": integer(
        100, "Least that a group may be given.", at_least(100, 2000), "records"
    ),
    "group.share.max.partition.max.record.locks": integer(
        4000, "Most that a group may be given.", at_least(2000, 10_000), "records"
    ),
    "group.share.max.share.sessions": integer(2000, "Most share sessions of a broker.", at_least(1), "sessions"),
    "errors.deadletterqueue.auto.create.topics.enable": boolean(
        False,
        "Whether a dead letter queue that a share group names is created when it is first needed (KIP-1191).",
        mode=CLUSTER,
    ),
    "errors.deadletterqueue.topic.name.prefix": string(
        "dlq.", "How the names of dead letter queues begin; empty: any name (KIP-1191).", mode=CLUSTER
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": integer(
        500,
        "Updates of a share partition on `__share_group_state` between two snapshots of it.",
        at_least(0, 500),
        "records",
    ),
    "share.coordinator.load.buffer.size": integer(
        5 << 20, "Size of reads while a share coordinator loads `__share_group_state`.", at_least(1), "bytes"
    ),
    "share.coordinator.write.timeout.ms": integer(
        5000, "How long the answer of a share coordinator waits until what it has written is committed.", at_least(1)
    ),
    "share.coordinator.state.topic.prune.interval.ms": integer(
        300_000, "Time between two removals of what `__share_group_state` no longer needs.", at_least(1), internal=True
    ),
    "share.coordinator.state.topic.num.partitions": integer(50, "Partitions of `__share_group_state`.", at_least(1)),
    "share.coordinator.state.topic.replication.factor": short(
        1, "Replicas of `__share_group_state`.", at_least(1), "replicas"
    ),
    "share.coordinator.state.topic.min.isr": short(
        1, "`min.insync.replicas` of `__share_group_state`.", at_least(1), "replicas"
    ),
    "share.coordinator.state.topic.segment.bytes": integer(
        100 << 20, "`segment.bytes` of `__share_group_state`.", at_least(1)
    ),
}

STREAMS_GROUPS: Rows = {
    **_times_of("streams"),
    "group.streams.initial.rebalance.delay.ms": integer(
        3_000, "Wait for more members before the first assignment of an empty streams group.", at_least(0)
    ),
    "group.streams.max.size": integer((1 << 31) - 1, "Most members of a streams group.", at_least(1), "members"),
    "group.streams.num.standby.replicas": integer(
        0, "Standby replicas of each task with state.", at_least(0), "replicas"
    ),
    "group.streams.max.standby.replicas": integer(
        2, "Most that a streams group may be given.", at_least(0), "replicas"
    ),
    "group.streams.assignors": entries(("sticky",), "The assignor of streams groups; there is one."),
    "group.streams.rack.aware.assignment.tags": entries(
        (), "Client tags that the members of streams groups must have. As in Kafka 4.4.0, they do not move any task."
    ),
}

TRANSACTIONS: Rows = {
    "transaction.state.log.replication.factor": short(1, "Replicas of `__transaction_state`.", at_least(1), "replicas"),
    "transaction.state.log.min.isr": integer(
        1, "`min.insync.replicas` of `__transaction_state`.", at_least(1), "replicas"
    ),
    "transaction.state.log.num.partitions": integer(
        50, "Partitions of `__transaction_state`; not to be changed once the topic exists.", at_least(1)
    ),
    "transaction.state.log.segment.bytes": integer(100 << 20, "`segment.bytes` of `__transaction_state`.", at_least(1)),
    "transaction.state.log.load.buffer.size": integer(
        5 << 20, "Bytes read at a time while a transaction coordinator loads its partition.", at_least(1), "bytes"
    ),
    "transaction.max.timeout.ms": integer(
        15 * MINUTE_MS,
        "Longest transaction timeout that a producer may ask for (INVALID_TRANSACTION_TIMEOUT).",
        at_least(1),
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": integer(
        10 * SECOND_MS, "Time between two searches for transactions that are past their timeout.", at_least(1)
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": integer(
        HOUR_MS,
        "Time between two searches for transactional ids that are past `transactional.id.expiration.ms`.",
        at_least(1),
    ),
    "transaction.partition.verification.enable": boolean(
        True, "Whether a transactional append is checked to belong to an open transaction (KIP-890).", mode=CLUSTER
    ),
    "transaction.two.phase.commit.enable": boolean(
        False, "Whether producers may take part in two-phase commit (KIP-939).", has_effect=False
    ),
    "transactional.id.expiration.ms": integer(
        7 * DAY_MS, "Time without use after which a transactional id is forgotten.", at_least(1)
    ),
    "producer.id.expiration.ms": integer(
        DAY_MS, "Time without an append after which a partition forgets a producer id.", at_least(1), mode=CLUSTER
    ),
    "producer.id.expiration.check.interval.ms": integer(
        10 * MINUTE_MS, "Time between two searches for producer ids to forget.", at_least(1), internal=True
    ),
    "add.partitions.to.txn.retry.backoff.ms": integer(
        20, "Pause before the broker asks again to add a partition to a transaction.", at_least(1)
    ),
    "add.partitions.to.txn.retry.backoff.max.ms": integer(
        100, "Longest time spent on asking again to add a partition to a transaction.", at_least(0)
    ),
}
