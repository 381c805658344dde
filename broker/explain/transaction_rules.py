"""Rules about a transactional id."""

from __future__ import annotations

from broker.explain.finding import Finding, Findings, Severity, counted, listed, seconds
from broker.explain.situations import TransactionSituation
from broker.inspection.producers import FENCED
from broker.nearest import did_you_mean


def does_not_exist(it: TransactionSituation) -> Findings:
    if not it.transaction.exists:
        hint = did_you_mean(it.transaction.transactional_id, it.existing, as_sentence=True)
        yield Finding(
            Severity.PROBLEM,
            "does_not_exist",
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
    yield Finding(
        Severity.WARNING,
        "is_open",
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
        yield Finding(Severity.WARNING, "holds_readers", f"readers of committed records wait for it: {where} behind it")


def markers_are_pending(it: TransactionSituation) -> Findings:
    found = it.transaction
    if found.is_prepared:
        where = listed(f"{topic}-{index}" for topic, index in found.without_marker) or "none"
        offline = [partition.name for partition in it.partitions if not partition.has_leader]
        why = f"; offline are {listed(offline)}" if offline else ""
        yield Finding(
            Severity.PROBLEM,
            "markers_are_pending",
            f"the transaction is decided ({found.state}), and its markers are not written yet in {where}{why}",
            "The coordinator tries again for ever; look at those partitions.",
        )


def producer_is_fenced(it: TransactionSituation) -> Findings:
    for request in it.requests:
        refused = request.errors & FENCED
        if refused:
            yield Finding(
                Severity.PROBLEM,
                "producer_is_fenced",
                f"{request.who} is fenced: its {request.api} was answered {listed(sorted(refused))} "
                f"{seconds(request.ago_ms)} ago; the epoch is {it.transaction.producer_epoch} now",
                "Another producer has taken the transactional id, or its transaction timed out or was aborted: the old "
                "producer must be closed.",
            )
            return


def last_one_was_aborted(it: TransactionSituation) -> Findings:
    if it.transaction.state == "CompleteAbort":
        yield Finding(
            Severity.WARNING,
            "last_one_was_aborted",
            "the last transaction was aborted: readers of committed records never see its records",
            "Producers abort on errors; the coordinator aborts what is open longer than transaction.timeout.ms.",
        )


def none_is_open(it: TransactionSituation) -> Findings:
    if it.transaction.state in ("Empty", "CompleteCommit"):
        done = " The last one was committed." if it.transaction.state == "CompleteCommit" else ""
        yield Finding(
            Severity.INFO,
            "none_is_open",
            f"transactional id {it.transaction.transactional_id} has no open transaction "
            f"(producer id {it.transaction.producer_id}, epoch {it.transaction.producer_epoch}).{done}",
        )


RULES = (
    does_not_exist,
    is_open,
    holds_readers,
    markers_are_pending,
    producer_is_fenced,
    last_one_was_aborted,
    none_is_open,
)
