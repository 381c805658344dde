"""Rules about a share group: who holds records, what does the start offset wait for, and why is nothing delivered?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from broker.share.runs import RecordState
from broker.testkit.explain import reading_rules
from broker.testkit.explain.situations import GroupSituation, seconds, who
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.inspection.share_and_streams import RangeView, ShareGroupView, SharePartitionView
from odradek.explain_rules import Findings, counted, info, listed, problem, warning


def waits_for_share_partitions(it: GroupSituation) -> Findings:
    shares = _shares(it)
    if it.group.members and shares.stateless:
        names = listed(f"{topic}-{index}" for topic, index in shares.stateless)
        yield warning(
            f"the share coordinator has no state of {names} yet: nobody is assigned them before it has",
            "A heartbeat after that assigns them. If it stays so, the broker's log says why the share partitions were "
            "not initialized.",
        )


def has_no_share_session(it: GroupSituation) -> Findings:
    for member in it.group.members:
        led = [
            one
            for one in it.partitions.values()
            if one.is_known and one.is_here and _is_assigned(member.assignment, one)
        ]
        if led and member.member_id not in _shares(it).sessions:
            ends = "" if member.session_left_ms is None else f"; it is removed in {seconds(member.session_left_ms)}"
            yield problem(
                f"{who(member)} is assigned {listed(one.name for one in led)} and does not fetch: it has no share "
                f"session{ends} unless it sends a heartbeat",
                "A share consumer fetches in poll(): look at what it does instead, and at "
                'broker.journal(api="ShareFetch").',
            )


def records_are_locked(it: GroupSituation) -> Findings:
    """Who has acquired what, and until when."""
    for partition in _shares(it).partitions:
        for member_id in sorted({one.member_id for one in _acquired(partition)}):
            held = [one for one in _acquired(partition) if one.member_id == member_id]
            left = sorted(one.lock_left_ms for one in held)
            until = seconds(left[0]) if left[0] == left[-1] else f"{seconds(left[0])} to {seconds(left[-1])}"
            found = info if partition.has_more else warning
            yield found(
                f"{_named(it, member_id)} has acquired {counted(sum(one.count for one in held), 'record')} of "
                f"{partition.name} ({_offsets(held)}) for {until} more; nobody else gets them before",
                "It accepts, releases or rejects them; with implicit acknowledgement by its next poll(). Locks last "
                "share.record.lock.duration.ms, and end with the member's share session.",
            )


def start_offset_waits(it: GroupSituation) -> Findings:
    """What the oldest record in flight waits for, if others after it are done."""
    for partition in _shares(it).partitions:
        done = sum(one.count for one in partition.ranges if one.state.is_final)
        if not done:
            continue
        yield info(
            f"the start offset of {partition.name} is {partition.start}, though {counted(done, 'record')} after it "
            f"{'is' if done == 1 else 'are'} done: {partition.ranges[0].offsets} {_waits(it, partition.ranges[0])}",
        )


def too_many_in_flight(it: GroupSituation) -> Findings:
    shares = _shares(it)
    for partition in shares.partitions:
        free = any(one.state is RecordState.AVAILABLE for one in partition.ranges)
        if partition.in_flight < shares.most_in_flight or free:
            continue
        first = partition.ranges[0]
        yield problem(
            f"{counted(partition.in_flight, 'record')} of {partition.name} are in flight, from the start offset "
            f"{partition.start} on, and share.partition.max.record.locks is {shares.most_in_flight}: nothing is "
            f"delivered until {first.offsets} ({_waits(it, first)}) is done",
            "Only the oldest records make room: accept or reject them, or raise share.partition.max.record.locks.",
        )


def is_given_up_soon(it: GroupSituation) -> Findings:
    """Records that were released, or held too long, so often that few tries are left."""
    shares = _shares(it)
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


def all_is_done(it: GroupSituation) -> Findings:
    for partition in _shares(it).partitions:
        if partition.start == partition.end:
            first = f", or were there before it first fetched (share.auto.offset.reset is {_shares(it).offset_reset})"
            yield info(
                f"group {it.group.group_id} is through with {partition.name}: all records before {partition.end} are "
                f"done{first if partition.end else ''}",
            )


def held_by_transaction(it: GroupSituation) -> Findings:
    if _shares(it).reads_committed:
        yield from reading_rules.held_by_transaction(it)


def _shares(it: GroupSituation) -> ShareGroupView:
    assert it.shares is not None, "rules of share groups are asked for these alone"
    return it.shares


def _is_assigned(assignment: Mapping[str, Sequence[int]], partition: PartitionView) -> bool:
    return partition.partition in assignment.get(partition.topic, ())


def _acquired(partition: SharePartitionView) -> Iterator[RangeView]:
    return (one for one in partition.ranges if one.state is RecordState.ACQUIRED)


def _has_last_try(one: RangeView, most_deliveries: int) -> bool:
    return one.state is RecordState.AVAILABLE and one.delivery_count == most_deliveries - 1


def _offsets(ranges: list[RangeView]) -> str:
    return listed(one.offsets for one in ranges)


def _waits(it: GroupSituation, one: RangeView) -> str:
    match one.state:
        case RecordState.ACQUIRED:
            return f"is acquired by {_named(it, one.member_id)} for {seconds(one.lock_left_ms)} more"
        case RecordState.ARCHIVING:
            return f"is on its way to the dead letter queue {_shares(it).queue}"
        case _:
            return f"waits for a member that acquires it, and was delivered {one.delivery_count} times"


def _named(it: GroupSituation, member_id: str) -> str:
    """The member, also one that has left the group and kept its share session."""
    found = next((member for member in it.group.members if member.member_id == member_id), None)
    return f"member {member_id}, which has left the group," if found is None else who(found)


RULES = (
    held_by_transaction,
    waits_for_share_partitions,
    has_no_share_session,
    too_many_in_flight,
    records_are_locked,
    is_given_up_soon,
    start_offset_waits,
    all_is_done,
)
