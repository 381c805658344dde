"""Rules about a group, also one of streams, about a topic and about a transactional id."""

from __future__ import annotations

from collections.abc import Iterable

from broker.nearest import did_you_mean
from broker.testkit.explain.situations import (
    GroupSituation,
    Holder,
    Holders,
    TopicSituation,
    TransactionSituation,
    seconds,
    who,
)
from broker.testkit.inspection.groups import SETTLED, GroupView, MemberView
from broker.testkit.inspection.partitions import PartitionView
from broker.testkit.inspection.share_and_streams import StreamsGroupView
from broker.testkit.journal_views import FENCED
from coordinator.group.streams.topology import Status
from odradek.explain_rules import Findings, counted, how_to_end, info, listed, problem, warning


def whom_it_waits_for_is_known_elsewhere(seen: GroupSituation) -> Findings:
    """Kafka's requests do not tell whom a group waits for."""
    group = seen.group
    if group.coordinator is not None and group.protocol == "classic" and group.state not in SETTLED:
        yield warning(
            f"group {group.group_id} is {group.state}: nobody reads until it is Stable; whom it waits for, its "
            f"coordinator knows, broker {group.coordinator}",
            "Ask that broker to explain the group.",
        )


def waits_for_members_to_join(seen: GroupSituation) -> Findings:
    if seen.group.state != "PreparingRebalance" or seen.group.coordinator is not None:
        return
    late = [member for member in seen.group.members if member.is_late]
    for member in late:
        yield problem(
            f"group {seen.group.group_id} has been rebalancing for {_since(seen)} because {who(member)} has not joined "
            f"again; nobody reads until it does, or until it is removed in {_left(seen, member)} at most",
            "A consumer joins in poll(): look at what it does instead. Or end its session: "
            f'broker.group("{seen.group.group_id}").expire("{member.member_id}").',
        )
    for member_id in seen.group.pending:
        yield problem(
            f"group {seen.group.group_id} waits for a consumer that was given the member id {member_id} and has not "
            "used it yet",
            "It has perhaps died in between; its session timeout ends the wait.",
        )
    if not late and not seen.group.pending:
        yield warning(
            f"group {seen.group.group_id} has been waiting for {_since(seen)} for more members to join",
            "Set group.initial.rebalance.delay.ms to 0 for tests.",
        )


def waits_for_sync(seen: GroupSituation) -> Findings:
    group = seen.group
    if group.protocol != "classic" or group.state not in ("CompletingRebalance", "Stable"):
        return
    for member in group.members:
        if not member.is_late:
            continue
        leads = member.member_id == group.leader
        role = ", the leader, which assigns the partitions" if leads else ""
        effect = "nobody has partitions until then" if group.state == "CompletingRebalance" else "it has no partitions"
        yield problem(
            f"group {group.group_id} is waiting for the SyncGroup of {who(member)}{role}, for {_since(seen)}, until it "
            f"is removed in {_left(seen, member)}; {effect}",
            "The client has got the answer to its JoinGroup, or has died meanwhile: look at its assignor, and at "
            'broker.journal(api="JoinGroup").',
        )


def waits_for_revocation(seen: GroupSituation) -> Findings:
    protocol = seen.group.protocol
    if protocol not in ("consumer", "streams"):
        return
    if seen.group.state == "Assigning":
        yield warning(
            f"group {seen.group.group_id} is Assigning: the next heartbeat of a member computes the new assignment",
            f"Members send heartbeats every group.{protocol}.heartbeat.interval.ms; two assignments are at least "
            f"group.{protocol}.assignment.interval.ms apart.",
        )
    if seen.group.state == "Reconciling":
        late = [member for member in seen.group.members if member.is_late]
        yield warning(
            f"group {seen.group.group_id} is Reconciling: it waits for {listed(map(who, late)) or 'its members'} to "
            "give up partitions or to take the next step",
            "A consumer gives partitions up in poll(); if it does not, it is removed after its rebalance timeout.",
        )


def topics_do_not_exist(seen: GroupSituation) -> Findings:
    for topic in sorted(seen.group.topics - seen.existing):
        subscribers = [who(member) for member in seen.group.members if topic in (member.topics or ())]
        hint = did_you_mean(topic, seen.existing, as_sentence=True)
        yield problem(
            f"{listed(subscribers)} subscribed to topic {topic}, which does not exist",
            f"Create it before the consumer subscribes, or wait for metadata.max.age.ms.{hint}",
        )


def partitions_without_owner(seen: GroupSituation) -> Findings:
    group = seen.group
    if group.state != "Stable":
        return
    owned = group.owners()
    missing = [lag for lag in seen.lags if lag.topic in group.topics and (lag.topic, lag.partition) not in owned]
    if missing:
        names = listed(f"{lag.topic}-{lag.partition}" for lag in missing)
        yield problem(
            f"no member of group {group.group_id} owns {names}, though the group is subscribed",
            "Partitions that were added later are assigned at the next rebalance: "
            f'broker.group("{group.group_id}").rebalance(). Otherwise look at the assignor.',
        )


def members_without_partitions(seen: GroupSituation) -> Findings:
    group = seen.group
    idle = [member for member in group.members if not member.assignment and member.topics is not None]
    if group.state != "Stable" or not idle or group.topics - seen.existing:
        return
    count = sum(1 for lag in seen.lags if lag.topic in group.topics)
    more = count < len(group.members)
    found = warning if more else problem
    yield found(
        f"{listed(map(who, idle))} of group {group.group_id} {'has' if len(idle) == 1 else 'have'} no partitions: "
        f"{counted(len(group.members), 'member')} share {counted(count, 'partition')}",
        "Give the topic as many partitions as the group has members." if more else "Look at the assignor.",
    )


def subscriptions_are_unknown(seen: GroupSituation) -> Findings:
    if seen.group.members and seen.group.protocol == "classic" and seen.group.protocol_type != "consumer":
        yield info(
            f"group {seen.group.group_id} has the protocol type {seen.group.protocol_type}: the broker does not know "
            "what its members read",
        )


def _since(seen: GroupSituation) -> str:
    since_ms = seen.group.since_ms
    return seconds(0 if since_ms is None else seen.now_ms - since_ms)


def _left(seen: GroupSituation, member: MemberView) -> str:
    """The time until the member is removed: the end of the phase, or of its session."""
    waited_ms = 0 if seen.group.since_ms is None else seen.now_ms - seen.group.since_ms
    left_ms: float = _rebalance_timeout_ms(seen.group) - waited_ms
    if member.session_left_ms is not None:
        left_ms = min(left_ms, member.session_left_ms)
    return seconds(left_ms)


def _rebalance_timeout_ms(group: GroupView) -> int:
    return max((member.rebalance_timeout_ms for member in group.members), default=0)


GROUP_RULES = (
    whom_it_waits_for_is_known_elsewhere,
    waits_for_members_to_join,
    waits_for_sync,
    waits_for_revocation,
    topics_do_not_exist,
    partitions_without_owner,
    members_without_partitions,
    subscriptions_are_unknown,
)


ADVICE = {
    Status.MISSING_SOURCE_TOPICS: "Create them: the group goes on by itself. The broker makes internal topics only.",
    Status.INCORRECTLY_PARTITIONED_TOPICS: "Topics that are joined need as many partitions as each other; delete an "
    "internal topic that was made for another number of partitions.",
    Status.MISSING_INTERNAL_TOPICS: "The broker makes them; its log says why it could not.",
}
"""What to do about a topology that is not ready."""


def topology_is_not_ready(seen: GroupSituation) -> Findings:
    unready = _streams(seen).problem
    if unready is not None and seen.group.members:
        yield problem(
            f"group {seen.group.group_id} has no tasks: members are told {unready.status.name} "
            f"(status {unready.status.value}): {unready.detail}",
            ADVICE.get(unready.status, ""),
        )


def application_shuts_down(seen: GroupSituation) -> Findings:
    member_id = _streams(seen).shutdown_by
    if member_id is not None:
        yield problem(
            f"member {member_id} of group {seen.group.group_id} has asked all to end: members are told "
            f"SHUTDOWN_APPLICATION (status {Status.SHUTDOWN_APPLICATION.value}) until the group is empty",
            "Look at the error that its uncaught exception handler got, and start the application again once all "
            "instances have ended.",
        )


def topology_is_stale(seen: GroupSituation) -> Findings:
    streams = _streams(seen)
    if streams.stale:
        names = listed(f"{member_id} (epoch {epoch})" for member_id, epoch in sorted(streams.stale.items()))
        yield warning(
            f"the topology of {names} is older than the group's, which has epoch {streams.topology_epoch}: they are "
            f"told STALE_TOPOLOGY (status {Status.STALE_TOPOLOGY.value})",
            "Update these instances.",
        )


def client_tags_are_missing(seen: GroupSituation) -> Findings:
    for member_id, tags in sorted(_streams(seen).untagged.items()):
        yield warning(
            f"member {member_id} has no client tags {listed(tags)}, which streams.rack.aware.assignment.tags names: it "
            f"is told MISSING_CLIENT_TAGS (status {Status.MISSING_CLIENT_TAGS.value})",
            "Set client.tag.<key> in its Streams configuration.",
        )


def assignment_is_delayed(seen: GroupSituation) -> Findings:
    if _streams(seen).is_delayed:
        yield warning(
            f"group {seen.group.group_id} has just begun and waits for more members: they are told ASSIGNMENT_DELAYED "
            f"(status {Status.ASSIGNMENT_DELAYED.value})",
            "Set group.streams.initial.rebalance.delay.ms to 0 for tests.",
        )


def state_is_behind(seen: GroupSituation) -> Findings:
    """Tasks whose state is not restored yet; a warm-up becomes active once it is near enough."""
    streams = _streams(seen)
    for task in streams.tasks:
        behind = task.behind
        if not behind:
            continue
        limit = f", and becomes active at {streams.acceptable_lag}" if task.role == "warm-up" else ""
        yield info(
            f"{task.role} task {task.name} of member {task.member_id} restores its state: it is "
            f"{counted(behind, 'record')} behind the end of its changelogs{limit}",
        )


def _streams(seen: GroupSituation) -> StreamsGroupView:
    assert seen.streams is not None, "rules of streams groups are asked for these alone"
    return seen.streams


STREAMS_RULES = (
    topology_is_not_ready,
    application_shuts_down,
    topology_is_stale,
    client_tags_are_missing,
    assignment_is_delayed,
    state_is_behind,
)


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


def offsets_are_unknown(seen: TopicSituation) -> Findings:
    yield from silent_leaders(seen.partitions)


def is_read_by(seen: TopicSituation) -> Findings:
    for sentence in seen.unknown:
        yield warning(f"not all groups are known: {sentence}")
    if seen.partitions and not seen.readers and not seen.unknown:
        yield info(
            f"no group subscribes to topic {seen.topic} or has committed offsets in it",
            "Look at the consumer's topic name; one that calls assign() and never commits is in no group.",
        )
    elif seen.readers:
        yield info(f"topic {seen.topic} is read by {listed(seen.readers)}")


TOPIC_RULES = (offsets_are_unknown, is_read_by)


def is_open(seen: TransactionSituation) -> Findings:
    found = seen.transaction
    if not found.is_ongoing:
        return
    age_ms = found.age_ms(seen.now_ms)
    who = f" of {seen.requests[0].who}" if seen.requests else ""
    last = (
        f"; its last request ({seen.requests[0].api}) was {seconds(seen.requests[0].ago_ms)} ago"
        if seen.requests
        else ""
    )
    left_ms = found.timeout_ms - age_ms
    when = f"in {seconds(left_ms)}" if left_ms > 0 else "when it next looks"
    ends = (
        f"the coordinator aborts it {when} (transaction.timeout.ms {found.timeout_ms}; it looks every "
        f"{seconds(seen.check_interval_ms)})"
    )
    where = listed(f"{topic}-{index}" for topic, index in found.partitions)
    yield warning(
        f"the transaction{who} has been open for {seconds(age_ms)} in {where}{last}; {ends}",
        how_to_end(found.transactional_id, in_test=seen.kit.is_open),
    )


def holds_readers(seen: TransactionSituation) -> Findings:
    mine = {
        partition.name: partition.end - partition.stable
        for partition in seen.partitions
        if partition.is_held and next(iter(partition.open_producers.values()), None) == seen.transaction.producer_id
    }
    if mine and seen.transaction.is_open:
        where = listed(f"{counted(number, 'record')} of {name}" for name, number in mine.items())
        yield warning(f"readers of committed records wait for it: {where} behind it")


def markers_are_pending(seen: TransactionSituation) -> Findings:
    found = seen.transaction
    if found.is_prepared:
        where = listed(f"{topic}-{index}" for topic, index in found.without_marker) or "none"
        offline = [partition.name for partition in seen.partitions if not partition.has_leader]
        why = f"; offline are {listed(offline)}" if offline else ""
        yield problem(
            f"the transaction is decided ({found.state}), and its markers are not written yet in {where}{why}",
            "The coordinator tries again for ever; look at those partitions.",
        )


def producer_is_fenced(seen: TransactionSituation) -> Findings:
    for request in seen.requests:
        refused = request.errors & FENCED
        if refused:
            yield problem(
                f"{request.who} is fenced: its {request.api} was answered {listed(sorted(refused))} "
                f"{seconds(request.ago_ms)} ago; the epoch is {seen.transaction.producer_epoch} now",
                "Another producer has taken the transactional id, or its transaction timed out or was aborted: the old "
                "producer must be closed.",
            )
            return


def last_one_was_aborted(seen: TransactionSituation) -> Findings:
    if seen.transaction.state == "CompleteAbort":
        yield warning(
            "the last transaction was aborted: readers of committed records never see its records",
            "Producers abort on errors; the coordinator aborts what is open longer than transaction.timeout.ms.",
        )


def none_is_open(seen: TransactionSituation) -> Findings:
    if seen.transaction.state in ("Empty", "CompleteCommit"):
        done = " The last one was committed." if seen.transaction.state == "CompleteCommit" else ""
        yield info(
            f"transactional id {seen.transaction.transactional_id} has no open transaction "
            f"(producer id {seen.transaction.producer_id}, epoch {seen.transaction.producer_epoch}).{done}",
        )


TRANSACTION_RULES = (
    is_open,
    holds_readers,
    markers_are_pending,
    producer_is_fenced,
    last_one_was_aborted,
    none_is_open,
)
