"""The three steps that a member's request may cause: a new group epoch, a new target, and the member's own next step.

The common part of `GroupMetadataManager.consumerGroupHeartbeat` and `classicGroupJoinToConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.reconciliation import Subscription, reconcile
from coordinator.group.consumer.states import MemberState
from coordinator.group.consumer.target import make_target, preferred_assignor, subscription, topics_of

logger = structlog.get_logger(__name__)


def record_member(
    groups: ConsumerGroups, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, change: Change
) -> bool:
    """Record what the member changed about itself; return whether the group epoch must rise for it.

    It must if it subscribes to other topics by name, or if with its vote another assignor has the majority.
    """
    if after is before or after == before:
        return False
    change.records.append(records.member(group.group_id, after))
    return after.topics != before.topics or _assignor_changes(groups, group, before, after)


def _assignor_changes(
    groups: ConsumerGroups, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember
) -> bool:
    if after.assignor == before.assignor:
        return False
    names = groups.config.assignors
    members = members_with(group, after).values()
    return preferred_assignor(members, names) != preferred_assignor(group.members.values(), names)


def advance(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    owned: Partitions | None,
    bump: bool,
    change: Change,
) -> ConsumerMember:
    """The member's next step after a request that made `member` of what it was `before`.

    `bump`: the group epoch rises in any case. `owned`: see `reconcile`.
    """
    members = members_with(group, member)
    if bump or not group.is_fresh:
        _refresh(groups, group, members.values(), bump, change)
    if change.epoch_of(group) > group.assignment_epoch and assignment_is_due(groups, group):
        now_ms = groups.context.clock.wall_ms()
        assignor = preferred_assignor(members.values(), groups.config.assignors)
        targets = make_target(group, members, groups.topics, assignor, now_ms, change)
        target, target_epoch = targets.get(member.member_id, NO_PARTITIONS), change.epoch_of(group)
    else:
        target, target_epoch = group.target_of(member), group.assignment_epoch
    has_changed = member.topics != before.topics or member.regex != before.regex
    return _reconcile(groups, group, member, target_epoch, target, owned, has_changed, change)


def assignment_is_due(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    """Whether the last target is old enough for a new one (KIP-1263); the first of a group is made at once."""
    interval_ms = groups.config.assignment_interval_of(group.group_id)
    return not group.assigned_ms or not interval_ms or groups.context.clock.wall_ms() >= group.assigned_ms + interval_ms


def members_with(group: ConsumerGroup, member: ConsumerMember) -> Mapping[str, ConsumerMember]:
    """The group's members including this one, which replaces an earlier one with its instance id."""
    known = group.members.get(member.member_id)
    if known is member or known == member:
        return group.members
    replaced = group.static_ids.get(member.instance_id) if member.instance_id is not None else None
    return {**{key: other for key, other in group.members.items() if key != replaced}, member.member_id: member}


def _refresh(
    groups: ConsumerGroups, group: ConsumerGroup, members: Iterable[ConsumerMember], bump: bool, change: Change
) -> None:
    """Raise the group epoch if it must rise, or if a subscribed topic has changed."""
    group_id = group.group_id
    names = topics_of(members, group.resolved)
    metadata_hash = groups.metadata_hash(names)
    if bump or metadata_hash != group.metadata_hash:
        raise_epoch(group, metadata_hash, change)
        change.after.append(groups.metrics.count_rebalance)
    if groups.find(group_id) is group:  # as in Kafka, a new group, or one that was classic, is checked once more
        change.after.append(lambda: groups.mark_fresh(group_id))
    if group.has_subscription_metadata:
        change.records.append(records.subscription_metadata_tombstone(group_id))


def raise_epoch(group: ConsumerGroup, metadata_hash: int, change: Change) -> None:
    change.epoch = group.epoch + 1
    change.records.append(records.epoch(group.group_id, change.epoch, metadata_hash))
    logger.info("bumped group epoch", group=group.group_id, epoch=change.epoch, metadata_hash=metadata_hash)


def _reconcile(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    has_changed: bool,
    change: Change,
) -> ConsumerMember:
    if member.is_reconciled_to(target_epoch) and not has_changed:
        return member
    names = subscription(member, group.resolved)

    def includes(topic: UUID) -> bool:
        image = groups.topics.by_id(topic)
        return image is not None and image.name in names

    after = reconcile(member, target_epoch, target, owned, group.is_free, Subscription(includes, has_changed))
    if after == member:
        return member
    group_id = group.group_id
    change.records.append(records.current_assignment(group_id, after))
    if not after.is_classic:
        timeouts = groups.timeouts
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            change.after.append(lambda: timeouts.start_rebalance(group_id, after))
        else:
            change.after.append(lambda: timeouts.end_rebalance(group_id, after.member_id))
    return after
