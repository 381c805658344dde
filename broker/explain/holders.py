"""Who holds readers back: a transaction before its end, a leader that does not answer; and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from broker.explain.finding import Finding, Findings, Severity
from broker.explain.situations import Holder, Holders
from broker.inspection.partitions import PartitionView


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
            yield Finding(
                Severity.WARNING,
                "offsets_are_unknown",
                f"broker {partition.leader} leads {partition.name}, and its offsets are not known: {partition.unknown}",
                "Ask again; if it stays so, look at that broker, and at the network between it and this one.",
            )


def _first(holders: Holders, partition: PartitionView) -> Holder | None:
    """The transaction whose first record comes first."""
    producer_id = next(iter(partition.open_producers.values()), None)
    return None if producer_id is None else holders.get(producer_id)
