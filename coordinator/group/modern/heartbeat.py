"""What heartbeats of all kinds of modern groups consist of. An operation collects records in a `Change`.

How it works: a request is checked, and the member looked up or made (static members: KIP-345 within KIP-848). Then the
group epoch rises if it must, a new target is made if it is time for one, and the member goes one step towards it. As in
Kafka, all is decided from the group as it was, and only the replay of the records changes it.

What moves to another member does so in two steps, so that it has no two owners at any moment (Kafka's
CurrentAssignmentBuilder of consumer and of streams groups): its owner gives it up, then the next one gets it. A member
stays at its epoch until it has reported that it no longer owns what it must give up; then it gets what the others have
given up by that time.

An assignment is a tuple of parts, which are sets of numbers by name: a consumer group's has one part, with partitions
by topic id; a streams group's has one for each role of a task, with partitions by subtopology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import structlog

from coordinator.group.modern.group import JOINING, LEFT_FOR_A_WHILE, A, M, MemberState, ModernGroup, ModernMember
from coordinator.group.modern.groups import ModernGroups
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from protocol.java_strings import java_trim

logger = structlog.get_logger(__name__)

T = TypeVar("T")
K = TypeVar("K")

Parts = Sequence[Mapping[K, frozenset[int]]]

_NONE: frozenset[int] = frozenset()


class Change:
    """The records to write, and what to do about soft state (timers, waiters) once they are written.

    `epoch` is the group's new epoch, None if it stays. `otherwise` runs if the records could not be written.
    """

    __slots__ = ("after", "epoch", "otherwise", "records")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.after: list[Callable[[], None]] = []
        self.epoch: int | None = None
        self.otherwise: Callable[[], None] | None = None

    def epoch_of(self, group: ModernGroup[Any, Any]) -> int:
        return group.epoch if self.epoch is None else self.epoch

    def outcome(self, reply: T) -> Outcome[T]:
        return Outcome(self.records, reply, self._effects if self.after else None)

    def _effects(self, error: KafkaError | None) -> None:
        if error is None:
            for effect in self.after:
                effect()
        elif self.otherwise is not None:
            self.otherwise()


# -- who may be a member


def check_text(text: str | None, name: str) -> None:
    """Raises InvalidRequest for a text that is there and empty."""
    if text is not None and text[:1] <= " " and not java_trim(text):
        raise InvalidRequest(f"{name} can't be empty.")


def check_room(group: ModernGroup[M, A], member_id: str, instance_id: str | None, limit: int) -> None:
    """Raises GroupMaxSizeReached if a newcomer meets a full group; a known static member is no newcomer."""
    if (instance_id is not None and instance_id in group.static_ids) or member_id in group.members:
        return
    if len(group.members) >= limit:
        raise GroupMaxSizeReached(
            f"The {group.protocol_type} group has reached its maximum capacity of {limit} members."
        )


def check_epoch(group: ModernGroup[M, A], member: M, epoch: int, *, may_be_late: bool) -> None:
    """Raises FencedMemberEpoch unless `epoch` is the member's.

    The previous epoch is accepted if `may_be_late`: while the member owns nothing it should not, it may have missed the
    last answer.
    """
    if epoch == member.epoch or (may_be_late and epoch == member.previous_epoch < member.epoch):
        return
    raise FencedMemberEpoch(
        f"The {group.protocol_type} group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch "
        f"({epoch}) than the one known by the group coordinator ({member.epoch}). The member must abandon all its "
        "partitions and rejoin."
    )


def known_member(group: ModernGroup[M, A], member_id: str, instance_id: str | None) -> M:
    """Raises UnknownMemberId, and FencedInstanceId if the instance id now belongs to another member."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id, instance_id)
    return member


def check_not_fenced(member: ModernMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )


def joining_member(
    group: ModernGroup[M, A], member_id: str, instance_id: str | None, change: Change, *, is_classic: bool = False
) -> M:
    """The member before it joins: a new one, one that joins again, or a static one in the place of another.

    Raises UnreleasedInstanceId while the other is still a member; one that speaks the group's own protocol must first
    have said that it leaves for a while.
    """
    before = group.static_member(instance_id)
    logger.info(
        "member joined",
        group=group.group_id,
        kind=group.group_type.value,
        member=member_id,
        group_instance_id=instance_id,
        protocol="classic" if is_classic else group.protocol_type,
        before=None if before is None else before.member_id,
    )
    if before is None:
        return group.members.get(member_id) or group.new_member(member_id)
    if not is_classic and not before.is_classic and before.epoch != LEFT_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {before.member_id} member."
        )
    return _replace(group, before, member_id, change)


def _replace(group: ModernGroup[M, A], before: M, member_id: str, change: Change) -> M:
    """Put a static member in the place of another. The replaced one's timers run on, and find no member."""
    after: M = cast(Any, before)._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    change.records += group.member_tombstones(before.member_id)
    change.records += (
        group.member_record(after),
        group.target_record(member_id, group.target.get(before.member_id, group.nothing)),
        group.assignment_record(after),
    )
    return after


# -- the group epoch and the target


def raise_epoch(group: ModernGroup[Any, Any], metadata_hash: int, change: Change) -> None:
    change.epoch = group.epoch + 1
    change.records.append(group.epoch_record(change.epoch, metadata_hash))
    logger.info("bumped group epoch", group=group.group_id, epoch=change.epoch, metadata_hash=metadata_hash)


def assignment_is_due(groups: ModernGroups, group: ModernGroup[Any, Any]) -> bool:
    """Whether the last target is old enough for a new one (KIP-1263); the first of a group is made at once."""
    if not group.members or not group.assigned_ms:
        return True
    interval_ms = groups.config_of(group).assignment_interval_of(group.group_id)
    return not interval_ms or groups.context.clock.wall_ms() >= group.assigned_ms + interval_ms


def target_of(
    groups: ModernGroups,
    group: ModernGroup[M, A],
    member: M,
    assign: Callable[[Mapping[str, M]], Mapping[str, A]],
    change: Change,
) -> tuple[int, A]:
    """The epoch and the assignment that the member shall reach; a new target if it is time for one.

    `assign` makes a target for these members.
    """
    epoch = group.epoch if change.epoch is None else change.epoch
    if epoch == group.assignment_epoch or not assignment_is_due(groups, group):
        return group.assignment_epoch, group.target_of(member)
    targets = assign(group.members_with(member))
    record_target(group, targets, epoch, groups.context.clock.wall_ms(), change)
    return epoch, targets[member.member_id]


def record_target(group: ModernGroup[M, A], targets: Mapping[str, A], epoch: int, now_ms: int, change: Change) -> None:
    """Record what differs from the last target, and the epoch that this one is made for."""
    change.records += [
        group.target_record(member_id, target)
        for member_id, target in targets.items()
        if target != group.target.get(member_id)
    ]
    change.records.append(group.target_epoch_record(epoch, now_ms))


# -- the member's own step


class Step(NamedTuple, Generic[K]):
    """What a member becomes: its parts, and what it must give up of each."""

    state: MemberState
    epoch: int
    assigned: Parts[K]
    pending: Parts[K]


def next_epoch(
    member: ModernMember,
    pending: Parts[K],
    owned: Parts[K] | None,
    target_epoch: int,
) -> int | None:
    """The epoch from which the member goes on towards its target; None if it is there, or cannot go on.

    `owned` is what the member reports to own, None if it reports nothing. Raises FencedMemberEpoch for a member in an
    unknown state, unless it owns nothing.
    """
    match member.state:
        case MemberState.STABLE:
            return None if member.epoch == target_epoch else member.epoch
        case MemberState.UNREVOKED:
            return None if owns_any(owned, pending) else member.epoch
        case MemberState.UNRELEASED:
            return member.epoch
    if owned is None or any(owned):
        raise FencedMemberEpoch(
            "The group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
    return target_epoch


def next_step(
    epoch: int,
    target_epoch: int,
    assigned: Parts[K],
    target: Parts[K],
    owned: Parts[K] | None,
    is_free: Sequence[Callable[[K, int], bool]],
) -> Step[K]:
    """The next step of a member that has `assigned` and goes on from `epoch`; see `next_epoch`.

    `is_free` says for each part whether the member may have something now.
    """
    kept: list[dict[K, frozenset[int]]] = []
    to_give_up: list[dict[K, frozenset[int]]] = []
    to_have: list[dict[K, frozenset[int]]] = []
    state = MemberState.STABLE
    for present_part, target_part, may_have in zip(assigned, target, is_free, strict=True):
        parts: tuple[dict[K, frozenset[int]], ...] = ({}, {}, {})
        for name in dict.fromkeys((*present_part, *target_part)):
            present, wanted = present_part.get(name, _NONE), target_part.get(name, _NONE)
            missing = wanted - present
            free = frozenset(index for index in missing if may_have(name, index))
            if free != missing:
                state = MemberState.UNRELEASED
            for part, indexes in zip(parts, (present & wanted, present - wanted, present & wanted | free), strict=True):
                if indexes:
                    part[name] = indexes
        kept.append(parts[0])
        to_give_up.append(parts[1])
        to_have.append(parts[2])
    if any(to_give_up) and owns_any(owned, to_give_up):
        return Step(MemberState.UNREVOKED, epoch, kept, to_give_up)
    return Step(state, target_epoch, to_have, [{} for _ in to_have])


def owns_any(owned: Parts[K] | None, parts: Parts[K]) -> bool:
    """Whether it owns any of them; a member that does not report what it owns may own any."""
    if owned is None:
        return True
    return any(
        owned_part[name] & indexes
        for owned_part, part in zip(owned, parts, strict=True)
        for name, indexes in part.items()
        if name in owned_part
    )


def owns_only(owned: Parts[K] | None, parts: Parts[K]) -> bool:
    """Whether all that it owns is among them; a member that does not report what it owns may own more."""
    if owned is None:
        return False
    return all(
        indexes <= part.get(name, _NONE)
        for owned_part, part in zip(owned, parts, strict=True)
        for name, indexes in owned_part.items()
    )


def record_step(groups: ModernGroups, group: ModernGroup[M, A], before: M, after: M, change: Change) -> None:
    """Record the member's step towards its target; it has a limited time to give up what it must."""
    if after == before:
        return
    change.records.append(group.assignment_record(after))
    if not after.is_classic:
        group_id, member_id, timeouts = group.group_id, after.member_id, groups.timeouts
        if after.state is MemberState.UNREVOKED:
            change.after.append(
                lambda: timeouts.start_rebalance(group_id, member_id, after.epoch, after.rebalance_timeout_ms)
            )
        else:
            change.after.append(lambda: timeouts.end_rebalance(group_id, member_id))


# -- removal


def remove(groups: ModernGroups, group: ModernGroup[M, A], members: Iterable[M]) -> Change:
    """Remove members: the group epoch rises, and the target follows with the heartbeat of another member."""
    change = Change()
    gone = dict.fromkeys(member.member_id for member in members)
    if not gone:
        return change
    for member_id in gone:
        change.records += group.member_tombstones(member_id)
    remaining = {key: member for key, member in group.members.items() if key not in gone}
    change.records += group.tombstones_besides(remaining)
    raise_epoch(group, groups.hash_for(group, remaining.values()), change)
    if not remaining:  # nothing is left to assign
        emptied_ms = group.emptied_ms(groups.context.clock.wall_ms())
        change.records.append(group.target_epoch_record(change.epoch_of(group), emptied_ms))
    change.after.append(lambda: groups.timeouts.end_all(group.group_id, gone))
    return change
