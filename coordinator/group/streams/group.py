"""A streams group: its durable state, which only the replay of records changes, and what is derived from it.

| state       | when                                                                     |
|-------------|--------------------------------------------------------------------------|
| Empty       | there are no members                                                     |
| NotReady    | topics that the topology needs are missing, or have the wrong size       |
| Assigning   | the target assignment is older than the group epoch                      |
| Reconciling | some member has not reached the target yet, or is away for a while       |
| Stable      | otherwise                                                                |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.group.group_port import GroupType, OwnedPartition
from coordinator.group.streams.configured import ConfiguredTopology
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.tasks import NO_TASKS, Task
from coordinator.group.streams.topology import sources_of
from protocol.consumer_protocol import NO_GENERATION
from protocol.coordinator_records.streams_group_records import (
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    Tasks,
)
from protocol.errors import GroupNotEmpty, StaleMemberEpoch, UnknownMemberId, UnknownServerError, UnsupportedVersion

PROTOCOL_TYPE = "streams"
FIRST_EPOCH = 1


class StreamsGroup:
    """Kafka's `StreamsGroup`.

    `epoch` is the group's, `assignment_epoch` the one that `target` was made for, at `assigned_ms`.
    `validated_topology_epoch` is the topology's if its topics were all there, else -1. Soft: `is_fresh`, no topic of
    the topology has changed since it was `configured`; `endpoint_epoch`, which counts the changes of what endpoints
    have; `shutdown_by`, the member that asked all to end; offsets of tasks' changelogs, by member.
    """

    group_type = GroupType.STREAMS
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        self.metadata_hash = 0
        self.validated_topology_epoch = -1
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.topology: StreamsGroupTopologyValue | None = None
        self.members: dict[str, StreamsMember] = {}
        self.static_ids: dict[str, str] = {}
        self.target: dict[str, Tasks] = {}
        self.is_fresh = False
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.offsets: dict[str, Mapping[Task, int]] = {}
        self.end_offsets: dict[str, Mapping[Task, int]] = {}

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.validated_topology_epoch != self.topology.epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> StreamsMember:
        """Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str) -> StreamsMember | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str) -> Tasks:
        return self.target.get(member_id, NO_TASKS)

    def metadata_value(self, epoch: int) -> StreamsGroupMetadataValue:
        """What the group would be with another epoch."""
        return StreamsGroupMetadataValue(
            epoch, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs
        )

    # -- for replay

    def put(self, member: StreamsMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def drop(self, member_id: str) -> None:
        """Remove a member, with what is known of it besides."""
        member = self.members.pop(member_id, None)
        if member is not None and self.static_ids.get(member.instance_id or "") == member_id:
            del self.static_ids[member.instance_id or ""]
        self.offsets.pop(member_id, None)
        self.end_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    # -- for offsets and the admin APIs (`group_port.Group`)

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        knows_member_epochs: bool,
        partitions: Iterable[OwnedPartition] = (),
    ) -> None:
        """A transactional commit may name no member; in an empty group anyone may commit without an epoch.

        An epoch before the member's is good for partitions of active tasks that it has had since (KIP-1251).
        """
        if generation < 0 and self.is_empty:
            return
        if transactional and generation == NO_GENERATION and not member_id and group_instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and not knows_member_epochs:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members of streams groups")
        if generation == member.epoch:
            return
        if generation > member.epoch or not self._has_since(member, generation, partitions):
            raise _wrong_epoch(member, generation)

    def _has_since(self, member: StreamsMember, epoch: int, partitions: Iterable[OwnedPartition]) -> bool:
        if self.topology is None:
            return False
        owners = {name: each.subtopology_id for each in self.topology.subtopologies for name in sources_of(each)}
        epochs = [member.epochs.get((owners.get(one.topic, ""), one.partition)) for one in partitions]
        return bool(epochs) and all(since is not None and since <= epoch for since in epochs)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Admin clients, and those that know no member epochs, name no member."""
        if member_id is not None:
            _check_epoch(self.member(member_id), member_epoch)
        elif member_epoch >= 0:
            raise UnknownServerError  # as in Kafka, which fails here

    def offset_commit_accepted(self, member_id: str) -> None:
        """Do nothing: only heartbeats are signs of life."""

    def validate_offset_delete(self) -> None:
        """Refuse nothing: offsets of any topic that the group does not read may be deleted."""

    def validate_delete(self) -> None:
        if self.members:
            raise GroupNotEmpty

    def is_subscribed_to_topic(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return any(topic in sources_of(each) for each in self.topology.subtopologies)

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """The commit's own time. Only called for topics without subscribers."""
        return commit_timestamp_ms


def _check_epoch(member: StreamsMember, epoch: int) -> None:
    if epoch != member.epoch:
        raise _wrong_epoch(member, epoch)


def _wrong_epoch(member: StreamsMember, epoch: int) -> StaleMemberEpoch:
    return StaleMemberEpoch(
        f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
    )
