"""The target assignment of a streams group (Kafka's `TargetAssignmentBuilder`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.group.streams import records
from coordinator.group.streams.assignor import NO_OFFSETS, AssignorMember, assign
from coordinator.group.streams.configured import ConfiguredTopology
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.tasks import NO_TASKS
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.streams_group_records import Tasks


def new_target(
    group: StreamsGroup,
    members: Iterable[StreamsMember],
    former: Mapping[str, Tasks],
    configured: ConfiguredTopology,
    standby_replicas: int,
) -> dict[str, Tasks]:
    """The tasks of each member, none while the topology is not ready. `former` is the last target."""
    known = list(members)
    if not configured.is_ready or not known:
        return {member.member_id: NO_TASKS for member in known}
    return assign(
        [
            AssignorMember(
                member.member_id,
                member.process_id,
                former.get(member.member_id, NO_TASKS),
                group.offsets.get(member.member_id, NO_OFFSETS),
            )
            for member in known
        ],
        configured.subtopologies,
        standby_replicas,
    )


def target_records(
    group: StreamsGroup, found: Mapping[str, Tasks], former: Mapping[str, Tasks], epoch: int, now_ms: int
) -> list[CoordinatorRecord]:
    """What has changed, and the epoch that the target was made for."""
    changed = [
        records.target(group.group_id, member_id, tasks)
        for member_id, tasks in found.items()
        if tasks != former.get(member_id)
    ]
    return [*changed, records.target_epoch(group.group_id, epoch, now_ms)]
