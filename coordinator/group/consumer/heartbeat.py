"""ConsumerGroupHeartbeat (KIP-848; Kafka's `GroupMetadataManager.consumerGroupHeartbeat`).

Most heartbeats are only a sign of life: they prolong the session. Any other is one pass: the member is looked up or
made, what it says about itself is recorded, the group epoch rises if it must, a new target is made if it is time for
one, and the member goes one step towards it. `advance` has the steps that a JoinGroup of the classic protocol causes
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import structlog

from coordinator.group.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec, PartitionAssignorError
from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember, preferred_assignor
from coordinator.group.consumer.migration import remove, upgrade
from coordinator.group.consumer.regexes import update_regexes
from coordinator.group.kinds import ConsumerGroupConfig
from coordinator.group.modern.group import JOINING, LEFT, LEFT_FOR_A_WHILE, UNCHANGED, MemberState
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import (
    Change,
    check_epoch,
    check_room,
    check_text,
    joining_member,
    known_member,
    next_epoch,
    next_step,
    owns_any,
    owns_only,
    raise_epoch,
    record_step,
    target_of,
)
from coordinator.runtime.outcome import Outcome
from protocol.coordinator_records.consumer_group_records import AssignmentEpochs
from protocol.coordinator_records.record_schema import Partitions
from protocol.errors import GroupIdNotFound, InvalidRequest, UnknownServerError, UnsupportedAssignor

logger = structlog.get_logger(__name__)
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A request; None, or UNCHANGED, for fields that the member reports as unchanged.

    `names_itself`: the request has a version in which members make their own ids (KIP-1082, from version 1 on).
    `may_describe`: whether the client has the right to describe a topic; expressions match no other.
    `tells_nothing`: it is only a sign of life, or reports nothing but what the member owns.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    regex: str | None
    assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str
    names_itself: bool
    may_describe: Callable[[str], bool] = lambda _topic: True
    tells_nothing: bool = field(init=False)

    def __post_init__(self) -> None:
        tells_nothing = (
            self.topics is None
            and self.rebalance_timeout_ms == UNCHANGED
            and self.instance_id is None
            and self.rack_id is None
            and self.regex is None
            and self.assignor is None
        )
        object.__setattr__(self, "tells_nothing", tells_nothing)

    @property
    def is_full(self) -> bool:
        """Whether the member says everything about itself, as after an error: then the answer has its assignment."""
        tells_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != UNCHANGED and tells_subscription and self.owned is not None


class ConsumerHeartbeatAnswer(NamedTuple):
    """The answer; `assigned` is None if the member knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None


def check_request(request: ConsumerHeartbeat) -> None:
    """Raises InvalidRequest if the request is wrong in itself."""
    if request.names_itself or request.member_epoch > 0 or request.member_epoch == LEFT:
        check_text(request.member_id, "MemberId")
    check_text(request.group_id, "GroupId")
    if request.tells_nothing and request.member_epoch > JOINING:
        return
    check_text(request.instance_id, "InstanceId")
    check_text(request.rack_id, "RackId")
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.topics is None and request.regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif request.member_epoch == LEFT_FOR_A_WHILE:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < LEFT_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")


def consumer_group_heartbeat(groups: ModernGroups, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle a request that passes `check_request`. Raises KafkaErrors."""
    if request.assignor is not None:
        _check_assignor(request.assignor, groups.consumer_config)
    if request.member_epoch < JOINING:
        return leave(groups, request)
    group_id = request.group_id
    group = groups.by_id.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return heartbeat_of_any(groups, None, request)
    unchanged = unchanged_member(group, request)
    if unchanged is None:
        return heartbeat_of_any(groups, group, request)
    config = groups.consumer_config
    groups.timeouts.start_session(group_id, unchanged.member_id, config.session_timeout_of(group_id))
    interval_ms = config.heartbeat_interval_of(group_id)
    return Outcome(reply=ConsumerHeartbeatAnswer(unchanged.member_id, unchanged.epoch, interval_ms))


def unchanged_member(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember | None:
    """The member if this is only a sign of life, as most heartbeats are: then it just prolongs the session."""
    if not group.is_fresh or group.epoch > group.assignment_epoch or group.subscribed_regexes:
        return None
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch != member.epoch or not member.is_reconciled_to(group.assignment_epoch):
        return None
    return member if request.owned is None and _updated(member, request) is member else None


def heartbeat_of_any(
    groups: ModernGroups, group: ConsumerGroup | None, request: ConsumerHeartbeat
) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle any heartbeat of a member that joins or stays. Raises KafkaErrors."""
    joins = request.member_epoch == JOINING
    change = Change()
    if group is None:
        if not joins or request.group_id in groups.by_id:
            groups.find_only(ConsumerGroup, request.group_id)  # which refuses a group of another kind
            raise GroupIdNotFound(f"Consumer group {request.group_id} not found.")
        group = upgrade(groups, request.group_id, change)
    check_room(group, request.member_id, request.instance_id, groups.consumer_config.max_size)
    before = _member(groups, group, request, change)
    member = _updated(before, request)
    bump = record_member(groups, group, before, member, change)
    bump |= update_regexes(groups, group, before, member, change, request.may_describe)
    after = advance(groups, group, before, member, request.owned, bump, change)
    change.after.append(lambda: groups.start_session(group, after))
    tells = joins or request.is_full or after.assigned != before.assigned
    interval_ms = groups.consumer_config.heartbeat_interval_of(request.group_id)
    answer = ConsumerHeartbeatAnswer(after.member_id, after.epoch, interval_ms, after.assigned if tells else None)
    return change.outcome(answer)


def _check_assignor(name: str, config: ConsumerGroupConfig) -> None:
    """Raises UnsupportedAssignor."""
    if name not in config.assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(config.assignors)}."
        )


def _member(groups: ModernGroups, group: ConsumerGroup, request: ConsumerHeartbeat, change: Change) -> ConsumerMember:
    """The member before the request; a new one has no assignment. A joining static member may give any epoch."""
    if request.member_epoch == JOINING:
        return joining_member(group, request.member_id or groups.new_member_id(), request.instance_id, change)
    member = known_member(group, request.member_id, request.instance_id)
    owns_no_more = request.owned is not None and owns_only((request.owned,), (member.assigned,))
    check_epoch(group, member, request.member_epoch, may_be_late=owns_no_more)
    return member


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what it says about itself. Whoever sends this request speaks the consumer protocol."""
    same_client = member.client_id == request.client_id and member.client_host == request.client_host
    if request.tells_nothing and same_client and member.classic is None:
        return member
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.assignor is None else request.assignor,
        topics=member.topics if request.topics is None else frozenset(request.topics),
        regex=member.regex if request.regex is None else request.regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def leave(groups: ModernGroups, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
    """Handle a heartbeat with epoch -1, or -2 of a static member that will come back. Raises KafkaErrors."""
    group = groups.get(ConsumerGroup, request.group_id)
    member = known_member(group, request.member_id, request.instance_id)
    for_a_while = request.member_epoch == LEFT_FOR_A_WHILE
    logger.info(
        "member left the consumer group",
        group=group.group_id,
        member=member.member_id,
        group_instance_id=request.instance_id,
        for_a_while=for_a_while,
    )
    answer = ConsumerHeartbeatAnswer(request.member_id, request.member_epoch)
    if for_a_while:
        return Outcome((group.assignment_record(member.away()),), answer)
    return remove(groups, group, [member]).outcome(answer)


# -- the steps of a member of either protocol


def record_member(
    groups: ModernGroups, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, change: Change
) -> bool:
    """Record what the member changed about itself; return whether the group epoch must rise for it.

    It must if it subscribes to other topics by name, or if with its vote another assignor has the majority.
    """
    if after is before or after == before:
        return False
    change.records.append(group.member_record(after))
    if after.topics != before.topics:
        return True
    if after.assignor == before.assignor:
        return False
    names = groups.consumer_config.assignors
    members = group.members_with(after).values()
    return preferred_assignor(members, names) != group.preferred_assignor(names)


def advance(
    groups: ModernGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    owned: Partitions | None,
    bump: bool,
    change: Change,
) -> ConsumerMember:
    """The member's next step after a request that made `member` of what it was `before`.

    `bump`: the group epoch rises in any case. `owned` is what the member reports to own, None if it reports nothing.
    """
    if bump or not group.is_fresh:
        _refresh(groups, group, member, bump, change)
    target_epoch, target = target_of(
        groups, group, member, lambda members: make_target(groups, group, members, change.epoch_of(group)), change
    )
    has_changed = member.topics != before.topics or member.regex != before.regex
    if member.is_reconciled_to(target_epoch) and not has_changed:
        return member
    after = _reconcile(groups, group, member, target_epoch, target, owned, has_changed)
    record_step(groups, group, member, after, change)
    return after


def _refresh(groups: ModernGroups, group: ConsumerGroup, member: ConsumerMember, bump: bool, change: Change) -> None:
    """Raise the group epoch if it must rise, or if a subscribed topic has changed."""
    group_id = group.group_id
    metadata_hash = groups.hash_for(group, group.members_with(member).values())
    if bump or metadata_hash != group.metadata_hash:
        raise_epoch(group, metadata_hash, change)
        change.after.append(groups.counts.count_consumer_rebalance)
    if groups.by_id.get(group_id) is group:  # as in Kafka, a new group, or one that was classic, is checked once more
        change.after.append(lambda: groups.mark_fresh(group_id))
    if group.has_subscription_metadata:
        change.records += [group.record(schema, None) for schema in group.types.besides]


def make_target(
    groups: ModernGroups, group: ConsumerGroup, members: Mapping[str, ConsumerMember], epoch: int
) -> Mapping[str, Partitions]:
    """Every member's target by member id, in the order of the ids. Raises UnknownServerError if the assignor fails."""
    assignor = preferred_assignor(members.values(), groups.consumer_config.assignors)
    spec = _spec(groups, group, members)
    try:
        targets = ASSIGNORS[assignor](spec)
    except PartitionAssignorError as error:
        logger.error("target assignment failed", group=group.group_id, epoch=epoch, assignor=assignor, error=str(error))
        raise UnknownServerError from error  # clients are not told why
    logger.info("target assignment computed", group=group.group_id, epoch=epoch, assignor=assignor)
    return {member_id: targets[member_id] for member_id in spec.members}


def _spec(groups: ModernGroups, group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> GroupSpec:
    counts: dict[UUID, int] = {}
    ids: dict[str, UUID] = {}
    for name in group.topics_of(members.values(), groups.topics):
        image = groups.topics.by_name(name)
        if image is not None:
            ids[name] = image.id
            counts[image.id] = image.partition_count
    # Most members have the same subscription, and sorting topics is expensive.
    subscriptions = {(member.topics, member.regex): member for member in members.values()}
    known = {
        key: tuple(ids[name] for name in sorted(group.subscription(member)) if name in ids)
        for key, member in subscriptions.items()
    }
    specs = {
        key: MemberSpec(member.instance_id, known[member.topics, member.regex], group.target_of(member))
        for key, member in sorted(members.items())
    }
    return GroupSpec(specs, len(set(known.values())) == 1, group.owners, counts)


# -- reconciliation


def _reconcile(
    groups: ModernGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    has_changed: bool,
) -> ConsumerMember:
    """The member's next state, or the same one if it cannot go on.

    What it does not subscribe to any more it gives up at once, whatever its target says. Raises FencedMemberEpoch.
    """
    names = group.subscription(member)

    def subscribed(partitions: Partitions) -> Partitions:
        images = map(groups.topics.by_id, partitions)
        return {image.id: partitions[image.id] for image in images if image is not None and image.name in names}

    own = member.pending_revocation

    def may_have(topic: UUID, index: int) -> bool:
        return index in own.get(topic, _NONE) or group.is_free(topic, index)

    owned_parts = None if owned is None else (owned,)
    epoch = next_epoch(member, (own,), owned_parts, target_epoch)
    if epoch is None:
        return _without_unsubscribed(member, owned, subscribed(member.assigned)) if has_changed else member
    state, new_epoch, (assigned,), (pending,) = next_step(
        epoch, target_epoch, (member.assigned,), (subscribed(target),), owned_parts, (may_have,)
    )
    return member._replace(
        state=state,
        epoch=new_epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending,
        epochs=_epochs(member, assigned, pending, target_epoch),
    )


def _without_unsubscribed(member: ConsumerMember, owned: Partitions | None, kept: Partitions) -> ConsumerMember:
    """The member at the same epoch, without the topics that it has just unsubscribed from."""
    if len(kept) == len(member.assigned):
        return member
    to_give_up = dict(member.pending_revocation)
    for topic, indexes in member.assigned.items():
        if topic not in kept:
            to_give_up[topic] = to_give_up.get(topic, _NONE) | indexes
    after = member._replace(previous_epoch=member.epoch, assigned=kept)
    if owns_any(None if owned is None else (owned,), (to_give_up,)):
        return after._replace(state=MemberState.UNREVOKED, pending_revocation=to_give_up)
    return after._replace(epochs=_epochs(member, kept, member.pending_revocation, member.epoch))


def _epochs(member: ConsumerMember, assigned: Partitions, pending: Partitions, new_epoch: int) -> AssignmentEpochs:
    """The epochs of these partitions alone; 0, before all others, where a record told none."""
    epochs: dict[UUID, dict[int, int]] = {}
    for partitions in (assigned, pending):
        for topic, indexes in partitions.items():
            known, before = member.epochs.get(topic, {}), member.assigned.get(topic, _NONE)
            epochs.setdefault(topic, {}).update(
                (index, known.get(index, 0) if index in before or partitions is pending else new_epoch)
                for index in indexes
            )
    return epochs
