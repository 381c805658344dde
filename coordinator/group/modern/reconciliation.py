"""How a member gets from what it has to its target, without two owners of a partition or task at any moment.

How it works (Kafka's CurrentAssignmentBuilder of consumer and of streams groups): what moves does so in two steps: its
owner gives it up, then the next one gets it. A member stays at its epoch until it has reported that it no longer owns
what it must give up; then it gets what the others have given up by that time.

An assignment is a tuple of parts, which are sets of numbers by name: a consumer group's has one part, with partitions
by topic id; a streams group's has one for each role of a task, with partitions by subtopology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from coordinator.group.modern.group import MemberState, ModernMember
from protocol.errors import FencedMemberEpoch

K = TypeVar("K")

Parts = Sequence[Mapping[K, frozenset[int]]]

_NONE: frozenset[int] = frozenset()


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
