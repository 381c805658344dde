"""The record of a classic group (Kafka's GroupCoordinatorRecordHelpers): each one holds all that a restart finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.group_records import GROUP_METADATA, GroupMetadataValue, MemberMetadata
from protocol.coordinator_records.record_schema import GroupKey
from protocol.records.batch import NO_TIMESTAMP


def group_metadata(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """The record with this value; None makes it the tombstone that ends the group."""
    return CoordinatorRecord(GROUP_METADATA, GroupKey(group_id), value)


def new_group(group_id: str, now_ms: int) -> CoordinatorRecord:
    return group_metadata(group_id, GroupMetadataValue("", 0, None, None, now_ms, ()))


def emptied(group: ClassicGroup, now_ms: int) -> CoordinatorRecord:
    """The next generation, without members."""
    value = GroupMetadataValue(group.protocol_type or "", group.generation + 1, None, None, now_ms, ())
    return group_metadata(group.group_id, value)


def generation(
    group: ClassicGroup, members: Iterable[Member], assignments: Mapping[str, bytes], leader_id: str | None
) -> CoordinatorRecord:
    """The current generation, Stable, with these members and assignments by member id (without any: empty ones)."""
    name = group.protocol_name
    assert name is not None, "chosen when the generation began"
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=name,
        leader=leader_id,
        current_state_timestamp=NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(name),
                assignments.get(member.member_id, b""),
            )
            for member in members
        ),
    )
    return group_metadata(group.group_id, value)
