"""Rules about what a group reads: is there something to read, may it be read, and does somebody ask for it?

Rules about a share group: who holds records, what does the start offset wait for, and why is nothing delivered?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from broker.share.runs import RecordState
from broker.testkit.explain.rules import holder_of, id_of_holder, silent_leaders
from broker.testkit.explain.situations import GroupSituation, seconds, who
from broker.testkit.inspection.groups import MemberView
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.inspection.share_and_streams import RangeView, ShareGroupView, SharePartitionView
from broker.testkit.journal_views import FetchView
from odradek.explain_rules import Findings, counted, how_to_end, info, listed, problem, warning
from protocol.topic_partition import PartitionKey

SILENT_MS = 5_000
"""A consumer that polls sends a Fetch at least every fetch.max.wait.ms, half a second by default."""


def offsets_are_unknown(seen: GroupSituation) -> Findings:
    yield from silent_leaders(seen.partitions.values())


def held_by_transaction(seen: GroupSituation) -> Findings:
    """The last stable offset, which readers of committed records do not pass."""
    if seen.shares is not None and not seen.shares.reads_committed:
        return
    for lag in seen.lags:
        key = (lag.topic, lag.partition)
        partition = seen.partitions.get(key)
        if partition is None or not partition.is_held:
            continue
        fetch = _fetch(seen, key)
        if fetch is not None and not fetch.read_committed:
            continue
        reader = "" if fetch is None else f", and {fetch.client_id or 'the consumer'} reads committed records only"
        found = warning if fetch is None else problem
        yield found(
            f"the last stable offset of {partition.name} is held at {partition.stable} by "
            f"{holder_of(seen.holders, partition, seen.now_ms)}; {counted(partition.end - partition.stable, 'record')} "
            f"behind it{reader}",
            how_to_end(id_of_holder(seen.holders, partition), in_test=seen.kit.is_open),
        )


def commits_wait_for_transaction(seen: GroupSituation) -> Findings:
    if seen.group.in_transactions:
        names = listed(f"{topic}-{index}" for topic, index in sorted(seen.group.in_transactions))
        yield warning(
            f"an open transaction has committed offsets of {names}: consumers that start there are answered "
            "UNSTABLE_OFFSET_COMMIT until it ends",
            "Commit or abort the transaction.",
        )


def is_not_fetched(seen: GroupSituation) -> Findings:
    """Somebody has the partition and does not ask for its records."""
    if seen.fetches is None:
        return
    for key, member in seen.group.owners().items():
        partition = seen.partitions.get(key)
        if partition is None or not partition.is_here or seen.group.state != "Stable" or member.is_late:
            continue
        fetch = seen.fetch_of(member, key)
        if fetch is not None and (fetch.waits or fetch.ago_ms < SILENT_MS):
            continue
        last = "it has sent no Fetch for it" if fetch is None else f"its last Fetch was {seconds(fetch.ago_ms)} ago"
        left_ms = member.session_left_ms
        ends = "" if left_ms is None else f"; its session ends in {seconds(left_ms)} if it is silent"
        yield problem(
            f"{partition.name} is assigned to {who(member)}, which does not fetch: {last}{ends}",
            "It does not poll: it works on earlier records, has paused the partition, or has died.",
        )


def fetches_are_seen_elsewhere(seen: GroupSituation) -> Findings:
    """Who fetches from other brokers, this one cannot see."""
    others = [one for key in seen.group.owners() if (one := seen.partitions.get(key)) is not None and not one.is_here]
    if others:
        brokers = listed(str(broker) for broker in sorted({one.leader for one in others}))
        yield info(
            f"whether members fetch {listed(one.name for one in others)} is not seen here: broker {brokers} leads them",
            "If records are not read, look at the journal there, or ask that broker to explain the group.",
        )


def reads_elsewhere(seen: GroupSituation) -> Findings:
    """A consumer asks for what is not there."""
    for key, _, partition, fetch in _fetched(seen):
        wanted = fetch.offsets[key]
        if not partition.start <= wanted <= partition.end:
            yield problem(
                f"{fetch.client_id or 'the consumer'} asks for offset {wanted} of {partition.name}, which has "
                f"{partition.start} to {partition.end}",
                "It is answered OFFSET_OUT_OF_RANGE, and goes where auto.offset.reset says; with none it fails.",
            )


def waits_for_new_records(seen: GroupSituation) -> Findings:
    """A consumer is at the end."""
    at_end = _fetched_to_the_end(seen)
    if at_end:
        yield info(
            f"{listed(partition.name for partition in at_end.values())}: the consumer is at the end, and waits for "
            "records",
        )


def fetched_and_not_committed(seen: GroupSituation) -> Findings:
    """A consumer is at the end, and the group's committed offsets are behind it."""
    at_end = _fetched_to_the_end(seen)
    behind = [
        lag for lag in seen.lags if (lag.topic, lag.partition) in at_end and lag.committed is not None and lag.lag
    ]
    if behind:
        yield info(
            f"{counted(sum(lag.lag or 0 for lag in behind), 'record')} of {listed(lag.name for lag in behind)} were "
            "fetched and are not committed: the application works on them, or does not commit",
            "Between two commits this is normal. If the lag grows, see how long the application takes for a record, "
            "and whether it commits (enable.auto.commit).",
        )


def reads_committed(seen: GroupSituation) -> Findings:
    clients = sorted({fetch.client_id or "-" for _, _, _, fetch in _fetched(seen) if fetch.read_committed})
    if clients:
        yield info(
            f"{listed(clients)} {'reads' if len(clients) == 1 else 'read'} with isolation.level read_committed: "
            "records of aborted transactions are skipped, those of open ones and all behind them are held back",
        )


def _fetched(seen: GroupSituation) -> Iterator[tuple[PartitionKey, MemberView, PartitionView, FetchView]]:
    for key, member in seen.group.owners().items():
        partition, fetch = seen.partitions.get(key), seen.fetch_of(member, key)
        if partition is not None and partition.is_known and fetch is not None:
            yield key, member, partition, fetch


def _fetched_to_the_end(seen: GroupSituation) -> dict[PartitionKey, PartitionView]:
    """The partitions of which a consumer has fetched all that it may read."""
    return {
        key: partition
        for key, _, partition, fetch in _fetched(seen)
        if fetch.offsets[key] == (partition.stable if fetch.read_committed else partition.end) and not partition.is_held
    }


def _fetch(seen: GroupSituation, key: PartitionKey) -> FetchView | None:
    owner = seen.group.owners().get(key)
    return None if owner is None else seen.fetch_of(owner, key)


READING_RULES = (
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


def waits_for_share_partitions(seen: GroupSituation) -> Findings:
    shares = _shares(seen)
    if seen.group.members and shares.stateless:
        names = listed(f"{topic}-{index}" for topic, index in shares.stateless)
        yield warning(
            f"the share coordinator has no state of {names} yet: nobody is assigned them before it has",
            "A heartbeat after that assigns them. If it stays so, the broker's log says why the share partitions were "
            "not initialized.",
        )


def has_no_share_session(seen: GroupSituation) -> Findings:
    for member in seen.group.members:
        led = [
            one
            for one in seen.partitions.values()
            if one.is_known and one.is_here and _is_assigned(member.assignment, one)
        ]
        if led and member.member_id not in _shares(seen).sessions:
            ends = "" if member.session_left_ms is None else f"; it is removed in {seconds(member.session_left_ms)}"
            yield problem(
                f"{who(member)} is assigned {listed(one.name for one in led)} and does not fetch: it has no share "
                f"session{ends} unless it sends a heartbeat",
                "A share consumer fetches in poll(): look at what it does instead, and at "
                'broker.journal(api="ShareFetch").',
            )


def records_are_locked(seen: GroupSituation) -> Findings:
    """Who has acquired what, and until when."""
    for partition in _shares(seen).partitions:
        for member_id in sorted({one.member_id for one in _acquired(partition)}):
            held = [one for one in _acquired(partition) if one.member_id == member_id]
            left = sorted(one.lock_left_ms for one in held)
            until = seconds(left[0]) if left[0] == left[-1] else f"{seconds(left[0])} to {seconds(left[-1])}"
            found = info if partition.has_more else warning
            yield found(
                f"{_named(seen, member_id)} has acquired {counted(sum(one.count for one in held), 'record')} of "
                f"{partition.name} ({_offsets(held)}) for {until} more; nobody else gets them before",
                "It accepts, releases or rejects them; with implicit acknowledgement by its next poll(). Locks last "
                "share.record.lock.duration.ms, and end with the member's share session.",
            )


def start_offset_waits(seen: GroupSituation) -> Findings:
    """What the oldest record in flight waits for, if others after it are done."""
    for partition in _shares(seen).partitions:
        done = sum(one.count for one in partition.ranges if one.state.is_final)
        if not done:
            continue
        yield info(
            f"the start offset of {partition.name} is {partition.start}, though {counted(done, 'record')} after it "
            f"{'is' if done == 1 else 'are'} done: {partition.ranges[0].offsets} {_waits(seen, partition.ranges[0])}",
        )


def too_many_in_flight(seen: GroupSituation) -> Findings:
    shares = _shares(seen)
    for partition in shares.partitions:
        free = any(one.state is RecordState.AVAILABLE for one in partition.ranges)
        if partition.in_flight < shares.most_in_flight or free:
            continue
        first = partition.ranges[0]
        yield problem(
            f"{counted(partition.in_flight, 'record')} of {partition.name} are in flight, from the start offset "
            f"{partition.start} on, and share.partition.max.record.locks is {shares.most_in_flight}: nothing is "
            f"delivered until {first.offsets} ({_waits(seen, first)}) is done",
            "Only the oldest records make room: accept or reject them, or raise share.partition.max.record.locks.",
        )


def is_given_up_soon(seen: GroupSituation) -> Findings:
    """Records that were released, or held too long, so often that few tries are left."""
    shares = _shares(seen)
    end = f"go to the dead letter queue {shares.queue}" if shares.queue else "are given up, with no dead letter queue"
    for partition in shares.partitions:
        last_try = [one for one in partition.ranges if _has_last_try(one, shares.most_deliveries)]
        if last_try:
            yield warning(
                f"{counted(sum(one.count for one in last_try), 'record')} of {partition.name} ({_offsets(last_try)}) "
                f"have one of {shares.most_deliveries} deliveries left: if they are not accepted then, they {end}",
                "See why consumers release them or let their locks end; share.delivery.count.limit is how often they "
                "are tried.",
            )


def all_is_done(seen: GroupSituation) -> Findings:
    for partition in _shares(seen).partitions:
        if partition.start == partition.end:
            first = f", or were there before it first fetched (share.auto.offset.reset is {_shares(seen).offset_reset})"
            yield info(
                f"group {seen.group.group_id} is through with {partition.name}: all records before {partition.end} are "
                f"done{first if partition.end else ''}",
            )


def _shares(seen: GroupSituation) -> ShareGroupView:
    assert seen.shares is not None, "rules of share groups are asked for these alone"
    return seen.shares


def _is_assigned(assignment: Mapping[str, Sequence[int]], partition: PartitionView) -> bool:
    return partition.partition in assignment.get(partition.topic, ())


def _acquired(partition: SharePartitionView) -> Iterator[RangeView]:
    return (one for one in partition.ranges if one.state is RecordState.ACQUIRED)


def _has_last_try(one: RangeView, most_deliveries: int) -> bool:
    return one.state is RecordState.AVAILABLE and one.delivery_count == most_deliveries - 1


def _offsets(ranges: list[RangeView]) -> str:
    return listed(one.offsets for one in ranges)


def _waits(seen: GroupSituation, one: RangeView) -> str:
    match one.state:
        case RecordState.ACQUIRED:
            return f"is acquired by {_named(seen, one.member_id)} for {seconds(one.lock_left_ms)} more"
        case RecordState.ARCHIVING:
            return f"is on its way to the dead letter queue {_shares(seen).queue}"
        case _:
            return f"waits for a member that acquires it, and was delivered {one.delivery_count} times"


def _named(seen: GroupSituation, member_id: str) -> str:
    """The member, also one that has left the group and kept its share session."""
    found = next((member for member in seen.group.members if member.member_id == member_id), None)
    return f"member {member_id}, which has left the group," if found is None else who(found)


SHARE_RULES = (
    held_by_transaction,
    waits_for_share_partitions,
    has_no_share_session,
    too_many_in_flight,
    records_are_locked,
    is_given_up_soon,
    start_offset_waits,
    all_is_done,
)
