"""A consumer group becomes a classic group again when its last member of the consumer protocol has left (KIP-848).

`group.consumer.migration.policy` says whether it may. `upgrade` is the way there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog

from coordinator.group.classic.group import group_metadata
from coordinator.group.classic.messages import CONSUMER_PROTOCOL_TYPE, choose_protocol, common_protocols
from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.embedded import encoded_assignment, protocols_of
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.records import group_tombstones
from protocol.consumer_protocol import SchemaError
from protocol.coordinator_records.group_records import GroupMetadataValue, MemberMetadata
from protocol.errors import GroupIdNotFound

logger = structlog.get_logger(__name__)


def may_downgrade(groups: ConsumerGroups, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """Whether these leave only members of the classic protocol behind, and the group may become classic."""
    gone = {member.member_id for member in leaving}
    remaining = [member for member in group.members.values() if member.member_id not in gone]
    return (
        bool(remaining) and all(member.is_classic for member in remaining) and _may_be_classic(groups, len(remaining))
    )


def may_downgrade_by(groups: ConsumerGroups, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether the static member that a classic one replaces is the only one that speaks the consumer protocol."""
    if replaced.is_classic or not _may_be_classic(groups, len(group.members)):
        return False
    return all(member.is_classic for member in group.members.values() if member is not replaced)


def _may_be_classic(groups: ConsumerGroups, size: int) -> bool:
    return groups.config.may_downgrade and size <= groups.classic.config.max_size


def downgrade(
    groups: ConsumerGroups, group: ConsumerGroup, leaving: Collection[ConsumerMember], change: Change
) -> None:
    """Make the rest of the group a classic one, which rebalances. Raises GroupIdNotFound if that is impossible."""
    gone = {member.member_id for member in leaving}
    members = {key: other for key, other in group.members.items() if key not in gone}
    change.records += group_tombstones(group)
    _to_classic(groups, group, members, {key: group.target.get(key, NO_PARTITIONS) for key in members}, change)
    group_id = group.group_id
    change.after.append(
        lambda: groups.classic.rebalance(group_id, f"Downgrade group {group_id} from consumer to classic.")
    )


def downgrade_by(
    groups: ConsumerGroups, group: ConsumerGroup, replaced: ConsumerMember, joining: ConsumerMember, change: Change
) -> None:
    """As `downgrade`, when the joining member replaces the last of the consumer protocol: no rebalance."""
    change.records += group_tombstones(group, {replaced.member_id: joining.member_id})
    members = {key: other for key, other in group.members.items() if other is not replaced}
    targets = {key: group.target.get(key, NO_PARTITIONS) for key in members}
    targets[joining.member_id] = group.target.get(replaced.member_id, NO_PARTITIONS)
    _to_classic(groups, group, {**members, joining.member_id: joining}, targets, change)


def _to_classic(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Partitions],
    change: Change,
) -> None:
    group_id = group.group_id
    protocols = {key: protocols_of(member) for key, member in members.items()}
    name = choose_protocol(protocols.values(), common_protocols(protocols.values()))
    try:
        saved = tuple(_saved(groups, members[key], name, targets[key]) for key in members)
    except SchemaError as error:
        logger.warning("group not downgraded", group=group_id, error=str(error))
        raise GroupIdNotFound(f"Cannot downgrade the classic group {group_id}: {error}.") from error
    now_ms = groups.context.clock.wall_ms()
    leader = next(iter(members))
    value = GroupMetadataValue(CONSUMER_PROTOCOL_TYPE, group.epoch, name, leader, now_ms, saved)
    change.records.append(group_metadata(group_id, value))
    gone = [*group.members]
    change.after.append(lambda: groups.timeouts.end_all(group_id, gone))
    change.after.append(lambda: groups.classic.take_over(group_id, protocols))
    logger.info("converting the consumer group to a classic group", group=group_id)


def _saved(groups: ConsumerGroups, member: ConsumerMember, protocol: str, target: Partitions) -> MemberMetadata:
    assert member.classic is not None, "only such members remain"
    metadata = dict(member.classic.protocols)[protocol]
    return MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        encoded_assignment(target, metadata, groups.topics),
    )
