"""Rules about a topic."""

from __future__ import annotations

from broker.explain.finding import Finding, Findings, Severity, counted, listed, seconds
from broker.explain.holders import advice_for, holder_of, silent_leaders
from broker.explain.situations import TopicSituation
from broker.nearest import did_you_mean


def topic_does_not_exist(it: TopicSituation) -> Findings:
    if it.topic not in it.existing:
        hint = did_you_mean(it.topic, it.existing, as_sentence=True)
        yield Finding(
            Severity.PROBLEM,
            "topic_does_not_exist",
            f"topic {it.topic} does not exist",
            f"A producer creates it with its first record, where auto.create.topics.enable is on.{hint}",
        )


def partition_is_offline(it: TopicSituation) -> Findings:
    offline = [partition.name for partition in it.partitions if not partition.has_leader]
    if offline:
        yield Finding(
            Severity.PROBLEM,
            "partition_is_offline",
            f"{listed(offline)} can be neither read nor written: no leader is online",
            "The broker's log says what happened to its folder.",
        )


def offsets_are_unknown(it: TopicSituation) -> Findings:
    yield from silent_leaders(it.partitions)


def not_enough_replicas(it: TopicSituation) -> Findings:
    few = [f"{name} ({count})" for name, count in it.in_sync.items() if count < it.least_in_sync]
    if few:
        yield Finding(
            Severity.PROBLEM,
            "not_enough_replicas",
            f"{listed(few)}: fewer replicas are in sync than min.insync.replicas, {it.least_in_sync}: producers with "
            "acks=all are answered NOT_ENOUGH_REPLICAS",
            "See which brokers are not running, or behind: odradek cluster status",
        )


def has_no_records(it: TopicSituation) -> Findings:
    if it.partitions and all(one.end == 0 for one in it.partitions):
        yield Finding(
            Severity.PROBLEM,
            "has_no_records",
            f"topic {it.topic} has no records: nothing was ever written to its "
            f"{counted(len(it.partitions), 'partition')}",
            'Look at what the producer was answered: broker.journal(api="Produce").',
        )


def records_were_deleted(it: TopicSituation) -> Findings:
    cut = [partition for partition in it.partitions if partition.start > 0]
    if cut:
        where = listed(
            f"{partition.name} starts at {partition.start}{' and has none left' * (partition.start == partition.end)}"
            for partition in cut
        )
        kept = "for ever" if it.retention_ms < 0 else seconds(it.retention_ms)
        yield Finding(
            Severity.WARNING,
            "records_were_deleted",
            f"records were deleted, by retention (retention.ms: {kept}) or on request: {where}",
            "A consumer that wants earlier offsets goes where auto.offset.reset says. Records with old timestamps are "
            "deleted by retention too.",
        )


def held_by_transaction(it: TopicSituation) -> Findings:
    for partition in it.partitions:
        if partition.is_held:
            yield Finding(
                Severity.WARNING,
                "held_by_transaction",
                f"the last stable offset of {partition.name} is held at {partition.stable} by "
                f"{holder_of(it.holders, partition, it.now_ms)}; readers of committed records do not get the "
                f"{counted(partition.end - partition.stable, 'record')} behind it",
                advice_for(it.holders, partition),
            )


def is_read_by(it: TopicSituation) -> Findings:
    for sentence in it.unknown:
        yield Finding(Severity.WARNING, "is_read_by", f"not all groups are known: {sentence}")
    if it.partitions and not it.readers and not it.unknown:
        yield Finding(
            Severity.INFO,
            "is_read_by",
            f"no group subscribes to topic {it.topic} or has committed offsets in it",
            "Look at the consumer's topic name; one that calls assign() and never commits is in no group.",
        )
    elif it.readers:
        yield Finding(Severity.INFO, "is_read_by", f"topic {it.topic} is read by {listed(it.readers)}")


def has_records(it: TopicSituation) -> Findings:
    filled = [partition for partition in it.partitions if partition.end > partition.start]
    if filled:
        where = listed(f"{partition.name}: {partition.start} to {partition.end}" for partition in filled)
        yield Finding(Severity.INFO, "has_records", f"topic {it.topic} has records ({where})")


RULES = (
    topic_does_not_exist,
    partition_is_offline,
    offsets_are_unknown,
    not_enough_replicas,
    has_no_records,
    records_were_deleted,
    held_by_transaction,
    is_read_by,
    has_records,
)
