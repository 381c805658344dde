"""Rules about a topic, and about a transactional id; and who holds readers back, which rules of groups ask too.

That is a transaction before its end, or a leader that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.nearest import did_you_mean
from broker.testkit.explain.situations import (
    Findings,
    Holder,
    Holders,
    TopicSituation,
    TransactionSituation,
    counted,
    info,
    listed,
    problem,
    seconds,
    warning,
)
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.journal_views import FENCED


def holder_of(holders: Holders, partition: PartitionView, now_ms: int) -> str:
    """Who holds the partition's last stable offset."""
    found = _first(holders, partition)
    if found is not None:
        return found.described(now_ms)
    producer_id = next(iter(partition.open_producers.values()), None)
    if producer_id is None:
        return "a transaction that has just ended"
    return f"an open transaction of producer id {producer_id}, which no coordinator knows"


def advice_for(holders: Holders, partition: PartitionView) -> str:
    found = _first(holders, partition)
    if found is None:
        return "End it: kafka-transactions.sh abort."
    name = found.transaction.transactional_id
    return (
        f"Commit or abort it in the producer, or end it with odradek transactions abort {name}, or in a test "
        f'broker.transaction("{name}").abort().'
    )


def silent_leaders(partitions: Iterable[PartitionView]) -> Findings:
    """A finding for each partition that has a leader, which does not tell its offsets."""
    for partition in partitions:
        if partition.has_leader and not partition.is_known:
            yield warning(
                f"broker {partition.leader} leads {partition.name}, and its offsets are not known: {partition.unknown}",
                "Ask again; if it stays so, look at that broker, and at the network between it and this one.",
            )


def _first(holders: Holders, partition: PartitionView) -> Holder | None:
    """The transaction whose first record comes first."""
    producer_id = next(iter(partition.open_producers.values()), None)
    return None if producer_id is None else holders.get(producer_id)


def topic_does_not_exist(it: TopicSituation) -> Findings:
    if it.topic not in it.existing:
        hint = did_you_mean(it.topic, it.existing, as_sentence=True)
        yield problem(
            f"topic {it.topic} does not exist",
            f"A producer creates it with its first record, where auto.create.topics.enable is on.{hint}",
        )


def partition_is_offline(it: TopicSituation) -> Findings:
    offline = [partition.name for partition in it.partitions if not partition.has_leader]
    if offline:
        yield problem(
            f"{listed(offline)} can be neither read nor written: no leader is online",
            "The broker's log says what happened to its folder.",
        )


def offsets_are_unknown(it: TopicSituation) -> Findings:
    yield from silent_leaders(it.partitions)


def not_enough_replicas(it: TopicSituation) -> Findings:
    few = [f"{name} ({count})" for name, count in it.in_sync.items() if count < it.least_in_sync]
    if few:
        yield problem(
            f"{listed(few)}: fewer replicas are in sync than min.insync.replicas, {it.least_in_sync}: producers with "
            "acks=all are answered NOT_ENOUGH_REPLICAS",
            "See which brokers are not running, or behind: odradek cluster status",
        )


def has_no_records(it: TopicSituation) -> Findings:
    if it.partitions and all(one.end == 0 for one in it.partitions):
        yield problem(
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
        yield warning(
            f"records were deleted, by retention (retention.ms: {kept}) or on request: {where}",
            "A consumer that wants earlier offsets goes where auto.offset.reset says. Records with old timestamps are "
            "deleted by retention too.",
        )


def held_by_transaction(it: TopicSituation) -> Findings:
    for partition in it.partitions:
        if partition.is_held:
            yield warning(
                f"the last stable offset of {partition.name} is held at {partition.stable} by "
                f"{holder_of(it.holders, partition, it.now_ms)}; readers of committed records do not get the "
                f"{counted(partition.end - partition.stable, 'record')} behind it",
                advice_for(it.holders, partition),
            )


def is_read_by(it: TopicSituation) -> Findings:
    for sentence in it.unknown:
        yield warning(f"not all groups are known: {sentence}")
    if it.partitions and not it.readers and not it.unknown:
        yield info(
            f"no group subscribes to topic {it.topic} or has committed offsets in it",
            "Look at the consumer's topic name; one that calls assign() and never commits is in no group.",
        )
    elif it.readers:
        yield info(f"topic {it.topic} is read by {listed(it.readers)}")


def has_records(it: TopicSituation) -> Findings:
    filled = [partition for partition in it.partitions if partition.end > partition.start]
    if filled:
        where = listed(f"{partition.name}: {partition.start} to {partition.end}" for partition in filled)
        yield info(f"topic {it.topic} has records ({where})")


TOPIC_RULES = (
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


def does_not_exist(it: TransactionSituation) -> Findings:
    if not it.transaction.exists:
        hint = did_you_mean(it.transaction.transactional_id, it.existing, as_sentence=True)
        yield problem(
            f"there is no transactional id {it.transaction.transactional_id}: no producer has called init_transactions",
            f"Look at the producer's transactional.id.{hint}",
        )


def is_open(it: TransactionSituation) -> Findings:
    found = it.transaction
    if not found.is_ongoing:
        return
    age_ms = found.age_ms(it.now_ms)
    who = f" of {it.requests[0].who}" if it.requests else ""
    last = f"; its last request ({it.requests[0].api}) was {seconds(it.requests[0].ago_ms)} ago" if it.requests else ""
    left_ms = found.timeout_ms - age_ms
    when = f"in {seconds(left_ms)}" if left_ms > 0 else "when it next looks"
    ends = (
        f"the coordinator aborts it {when} (transaction.timeout.ms {found.timeout_ms}; it looks every "
        f"{seconds(it.check_interval_ms)})"
    )
    where = listed(f"{topic}-{index}" for topic, index in found.partitions)
    yield warning(
        f"the transaction{who} has been open for {seconds(age_ms)} in {where}{last}; {ends}",
        f"Commit or abort it in the producer, or end it with odradek transactions abort {found.transactional_id}, or "
        f'in a test broker.transaction("{found.transactional_id}").abort().',
    )


def holds_readers(it: TransactionSituation) -> Findings:
    mine = {
        partition.name: partition.end - partition.stable
        for partition in it.partitions
        if partition.is_held and next(iter(partition.open_producers.values()), None) == it.transaction.producer_id
    }
    if mine and it.transaction.is_open:
        where = listed(f"{counted(number, 'record')} of {name}" for name, number in mine.items())
        yield warning(f"readers of committed records wait for it: {where} behind it")


def markers_are_pending(it: TransactionSituation) -> Findings:
    found = it.transaction
    if found.is_prepared:
        where = listed(f"{topic}-{index}" for topic, index in found.without_marker) or "none"
        offline = [partition.name for partition in it.partitions if not partition.has_leader]
        why = f"; offline are {listed(offline)}" if offline else ""
        yield problem(
            f"the transaction is decided ({found.state}), and its markers are not written yet in {where}{why}",
            "The coordinator tries again for ever; look at those partitions.",
        )


def producer_is_fenced(it: TransactionSituation) -> Findings:
    for request in it.requests:
        refused = request.errors & FENCED
        if refused:
            yield problem(
                f"{request.who} is fenced: its {request.api} was answered {listed(sorted(refused))} "
                f"{seconds(request.ago_ms)} ago; the epoch is {it.transaction.producer_epoch} now",
                "Another producer has taken the transactional id, or its transaction timed out or was aborted: the old "
                "producer must be closed.",
            )
            return


def last_one_was_aborted(it: TransactionSituation) -> Findings:
    if it.transaction.state == "CompleteAbort":
        yield warning(
            "the last transaction was aborted: readers of committed records never see its records",
            "Producers abort on errors; the coordinator aborts what is open longer than transaction.timeout.ms.",
        )


def none_is_open(it: TransactionSituation) -> Findings:
    if it.transaction.state in ("Empty", "CompleteCommit"):
        done = " The last one was committed." if it.transaction.state == "CompleteCommit" else ""
        yield info(
            f"transactional id {it.transaction.transactional_id} has no open transaction "
            f"(producer id {it.transaction.producer_id}, epoch {it.transaction.producer_epoch}).{done}",
        )


TRANSACTION_RULES = (
    does_not_exist,
    is_open,
    holds_readers,
    markers_are_pending,
    producer_is_fenced,
    last_one_was_aborted,
    none_is_open,
)
