"""How a member gets from what it owns to its target (Kafka's CurrentAssignmentBuilder).

A partition moves in two steps: its owner gives it up, then the next one gets it. A member stays at its epoch until it
has reported that it no longer owns what it must give up; then it gets what the others have given up by that time. What
it does not subscribe to any more it gives up at once, whatever its target says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.assignment import NO_PARTITIONS, AssignmentEpochs, Partitions
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.states import MemberState
from protocol.errors import FencedMemberEpoch

IsFree = Callable[[UUID, int], bool]
"""Whether nobody owns the partition or still has to give it up."""

_NONE: frozenset[int] = frozenset()


class Subscription(NamedTuple):
    """Whether the member subscribes to a topic, and whether its subscription has just changed."""

    includes: Callable[[UUID], bool]
    has_changed: bool


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
    subscription: Subscription,
) -> ConsumerMember:
    """The member's next state, or the same one if it cannot go on.

    `owned` is what the member reports to own, None if it reports nothing. Raises FencedMemberEpoch for a member in an
    unknown state, unless it owns nothing.
    """
    epoch = member.epoch
    match member.state:
        case MemberState.STABLE if epoch == target_epoch:
            return _without_unsubscribed(member, owned, subscription)
        case MemberState.UNREVOKED_PARTITIONS if _owns_any(owned, member.pending_revocation):
            return _without_unsubscribed(member, owned, subscription)
        case MemberState.STABLE | MemberState.UNREVOKED_PARTITIONS | MemberState.UNRELEASED_PARTITIONS:
            pass
        case _:
            if owned is None or owned:
                raise FencedMemberEpoch(
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin."
                )
            epoch = target_epoch
    wanted = {topic: indexes for topic, indexes in target.items() if subscription.includes(topic)}
    return _next(member, epoch, target_epoch, wanted, owned, is_free)


def _without_unsubscribed(
    member: ConsumerMember, owned: Partitions | None, subscription: Subscription
) -> ConsumerMember:
    """The member at the same epoch, without the topics that it has just unsubscribed from."""
    if not subscription.has_changed:
        return member
    kept = {topic: indexes for topic, indexes in member.assigned.items() if subscription.includes(topic)}
    if len(kept) == len(member.assigned):
        return member
    to_give_up = dict(member.pending_revocation)
    for topic, indexes in member.assigned.items():
        if topic not in kept:
            to_give_up[topic] = to_give_up.get(topic, _NONE) | indexes
    if not _owns_any(owned, to_give_up):
        return member._replace(
            previous_epoch=member.epoch, assigned=kept, epochs=_epochs(member.epochs, kept, member.pending_revocation)
        )
    return member._replace(
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation=to_give_up,
    )


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> ConsumerMember:
    kept: dict[UUID, frozenset[int]] = {}
    to_give_up: dict[UUID, frozenset[int]] = {}
    to_get: dict[UUID, frozenset[int]] = {}
    unreleased = False
    for topic in dict.fromkeys((*member.assigned, *target)):
        wanted, present = target.get(topic, _NONE), member.assigned.get(topic, _NONE)
        missing = wanted - present
        own = member.pending_revocation.get(topic, _NONE)
        free = frozenset(index for index in missing if index in own or is_free(topic, index))
        unreleased |= free != missing
        for found, partitions in ((kept, present & wanted), (to_give_up, present - wanted), (to_get, free)):
            if partitions:
                found[topic] = partitions
    if to_give_up and _owns_any(owned, to_give_up):
        return member._replace(
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=to_give_up,
            epochs=_epochs(member.epochs, kept, to_give_up),
        )
    epochs = _epochs(member.epochs, kept, NO_PARTITIONS)
    for topic, indexes in to_get.items():
        epochs.setdefault(topic, {}).update(dict.fromkeys(indexes, target_epoch))
    return member._replace(
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned={topic: kept.get(topic, _NONE) | to_get.get(topic, _NONE) for topic in (*kept, *to_get)},
        pending_revocation=NO_PARTITIONS,
        epochs=epochs,
    )


def _epochs(epochs: AssignmentEpochs, assigned: Partitions, pending: Partitions) -> dict[UUID, dict[int, int]]:
    """The epochs of these partitions alone; 0, before all others, where a record told none."""
    found: dict[UUID, dict[int, int]] = {}
    for partitions in (assigned, pending):
        for topic, indexes in partitions.items():
            known = epochs.get(topic, {})
            found.setdefault(topic, {}).update((index, known.get(index, 0)) for index in indexes)
    return found


def _owns_any(owned: Partitions | None, partitions: Mapping[UUID, frozenset[int]]) -> bool:
    """Whether it owns any of them; a member that does not report what it owns may own any."""
    if owned is None:
        return True
    return any(owned[topic] & indexes for topic, indexes in partitions.items() if topic in owned)
