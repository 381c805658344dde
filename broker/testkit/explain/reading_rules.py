"""Rules about what a group reads: is there something to read, may it be read, and does somebody ask for it?"""

from __future__ import annotations

from collections.abc import Iterator

from broker.testkit.explain.situations import GroupSituation, seconds, who
from broker.testkit.explain.topic_rules import holder_of, id_of_holder, silent_leaders
from broker.testkit.inspection.groups import MemberView
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.journal_views import FetchView
from odradek.explain_rules import Findings, counted, how_to_end, info, listed, problem, warning
from protocol.topic_partition import PartitionKey

SILENT_MS = 5_000
"""A consumer that polls sends a Fetch at least every fetch.max.wait.ms, half a second by default."""


def offsets_are_unknown(it: GroupSituation) -> Findings:
    yield from silent_leaders(it.partitions.values())


def held_by_transaction(it: GroupSituation) -> Findings:
    """The last stable offset, which readers of committed records do not pass."""
    for lag in it.lags:
        key = (lag.topic, lag.partition)
        partition = it.partitions.get(key)
        if partition is None or not partition.is_held:
            continue
        fetch = _fetch(it, key)
        if fetch is not None and not fetch.read_committed:
            continue
        reader = "" if fetch is None else f", and {fetch.client_id or 'the consumer'} reads committed records only"
        found = warning if fetch is None else problem
        yield found(
            f"the last stable offset of {partition.name} is held at {partition.stable} by "
            f"{holder_of(it.holders, partition, it.now_ms)}; {counted(partition.end - partition.stable, 'record')} "
            f"behind it{reader}",
            how_to_end(id_of_holder(it.holders, partition), in_test=True),
        )


def commits_wait_for_transaction(it: GroupSituation) -> Findings:
    if it.group.in_transactions:
        names = listed(f"{topic}-{index}" for topic, index in sorted(it.group.in_transactions))
        yield warning(
            f"an open transaction has committed offsets of {names}: consumers that start there are answered "
            "UNSTABLE_OFFSET_COMMIT until it ends",
            "Commit or abort the transaction.",
        )


def is_not_fetched(it: GroupSituation) -> Findings:
    """Somebody has the partition and does not ask for its records."""
    if it.fetches is None:
        return
    for key, member in it.group.owners().items():
        partition = it.partitions.get(key)
        if partition is None or not partition.is_here or it.group.state != "Stable" or member.is_late:
            continue
        fetch = it.fetch_of(member, key)
        if fetch is not None and (fetch.waits or fetch.ago_ms < SILENT_MS):
            continue
        last = "it has sent no Fetch for it" if fetch is None else f"its last Fetch was {seconds(fetch.ago_ms)} ago"
        left_ms = member.session_left_ms
        ends = "" if left_ms is None else f"; its session ends in {seconds(left_ms)} if it is silent"
        yield problem(
            f"{partition.name} is assigned to {who(member)}, which does not fetch: {last}{ends}",
            "It does not poll: it works on earlier records, has paused the partition, or has died.",
        )


def fetches_are_seen_elsewhere(it: GroupSituation) -> Findings:
    """Who fetches from other brokers, this one cannot see."""
    others = [one for key in it.group.owners() if (one := it.partitions.get(key)) is not None and not one.is_here]
    if others:
        brokers = listed(str(broker) for broker in sorted({one.leader for one in others}))
        yield info(
            f"whether members fetch {listed(one.name for one in others)} is not seen here: broker {brokers} leads them",
            "If records are not read, look at the journal there, or ask that broker to explain the group.",
        )


def reads_elsewhere(it: GroupSituation) -> Findings:
    """A consumer asks for what is not there."""
    for key, _, partition, fetch in _fetched(it):
        wanted = fetch.offsets[key]
        if not partition.start <= wanted <= partition.end:
            yield problem(
                f"{fetch.client_id or 'the consumer'} asks for offset {wanted} of {partition.name}, which has "
                f"{partition.start} to {partition.end}",
                "It is answered OFFSET_OUT_OF_RANGE, and goes where auto.offset.reset says; with none it fails.",
            )


def waits_for_new_records(it: GroupSituation) -> Findings:
    """A consumer is at the end."""
    at_end = _fetched_to_the_end(it)
    if at_end:
        yield info(
            f"{listed(partition.name for partition in at_end.values())}: the consumer is at the end, and waits for "
            "records",
        )


def fetched_and_not_committed(it: GroupSituation) -> Findings:
    """A consumer is at the end, and the group's committed offsets are behind it."""
    at_end = _fetched_to_the_end(it)
    behind = [lag for lag in it.lags if (lag.topic, lag.partition) in at_end and lag.committed is not None and lag.lag]
    if behind:
        yield info(
            f"{counted(sum(lag.lag or 0 for lag in behind), 'record')} of {listed(lag.name for lag in behind)} were "
            "fetched and are not committed: the application works on them, or does not commit",
            "Between two commits this is normal. If the lag grows, see how long the application takes for a record, "
            "and whether it commits (enable.auto.commit).",
        )


def reads_committed(it: GroupSituation) -> Findings:
    clients = sorted({fetch.client_id or "-" for _, _, _, fetch in _fetched(it) if fetch.read_committed})
    if clients:
        yield info(
            f"{listed(clients)} {'reads' if len(clients) == 1 else 'read'} with isolation.level read_committed: "
            "records of aborted transactions are skipped, those of open ones and all behind them are held back",
        )


def _fetched(it: GroupSituation) -> Iterator[tuple[PartitionKey, MemberView, PartitionView, FetchView]]:
    for key, member in it.group.owners().items():
        partition, fetch = it.partitions.get(key), it.fetch_of(member, key)
        if partition is not None and partition.is_known and fetch is not None:
            yield key, member, partition, fetch


def _fetched_to_the_end(it: GroupSituation) -> dict[PartitionKey, PartitionView]:
    """The partitions of which a consumer has fetched all that it may read."""
    return {
        key: partition
        for key, _, partition, fetch in _fetched(it)
        if fetch.offsets[key] == (partition.stable if fetch.read_committed else partition.end) and not partition.is_held
    }


def _fetch(it: GroupSituation, key: PartitionKey) -> FetchView | None:
    owner = it.group.owners().get(key)
    return None if owner is None else it.fetch_of(owner, key)


RULES = (
    offsets_are_unknown,
    held_by_transaction,
    commits_wait_for_transaction,
    is_not_fetched,
    fetches_are_seen_elsewhere,
    reads_elsewhere,
    waits_for_new_records,
    fetched_and_not_committed,
    reads_committed,
)
