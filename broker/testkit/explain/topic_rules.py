"""Rules about a topic, and about a transactional id; and who holds readers back, which rules of groups ask too.

That is a transaction before its end, or a leader that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.testkit.explain.situations import Holder, Holders, TopicSituation, TransactionSituation, seconds
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.journal_views import FENCED
from odradek.explain_rules import Findings, counted, how_to_end, info, listed, problem, warning


def holder_of(holders: Holders, partition: PartitionView, now_ms: int) -> str:
    """Who holds the partition's last stable offset."""
    found = _first(holders, partition)
    if found is not None:
        return found.described(now_ms)
    producer_id = next(iter(partition.open_producers.values()), None)
    if producer_id is None:
        return "a transaction that has just ended"
    return f"an open transaction of producer id {producer_id}, which no coordinator knows"


def id_of_holder(holders: Holders, partition: PartitionView) -> str:
    """The transactional id; empty if it is not known."""
    found = _first(holders, partition)
    return "" if found is None else found.transaction.transactional_id


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


def offsets_are_unknown(it: TopicSituation) -> Findings:
    yield from silent_leaders(it.partitions)


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


TOPIC_RULES = (offsets_are_unknown, is_read_by)


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
        how_to_end(found.transactional_id, in_test=True),
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
    is_open,
    holds_readers,
    markers_are_pending,
    producer_is_fenced,
    last_one_was_aborted,
    none_is_open,
)
