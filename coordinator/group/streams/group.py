"""A streams group (KIP-1071): its durable state, which only the replay of records changes, and what is derived from it.

| state       | when                                                                     |
|-------------|--------------------------------------------------------------------------|
| Empty       | there are no members                                                     |
| NotReady    | topics that the topology needs are missing, or have the wrong size       |
| Assigning   | the target assignment is older than the group epoch                      |
| Reconciling | some member has not reached the target yet, or is away for a while       |
| Stable      | otherwise                                                                |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from coordinator.group.group_port import GroupType, OwnedPartition
from coordinator.group.modern.group import ModernGroup, RecordTypes
from coordinator.group.streams.member import NO_TASKS, StreamsMember, Task
from coordinator.group.streams.topology import ConfiguredTopology, required_topics, sources_of
from protocol.coordinator_records import streams_group_records as schemas
from protocol.coordinator_records import streams_group_values as values
from protocol.coordinator_records.record_schema import RecordSchema
from protocol.coordinator_records.streams_group_values import (
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    Tasks,
)


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """Kafka's `StreamsGroup`.

    `validated_topology_epoch` is the topology's if its topics were all there, else -1. Soft: `configured`, the topology
    among the topics; `endpoint_epoch`, which counts the changes of what endpoints have; `shutdown_by`, the member that
    asked all to end; offsets of tasks' changelogs, by member.
    """

    group_type = GroupType.STREAMS
    protocol_type = "streams"
    state_names = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable")
    types = RecordTypes(
        schemas.STREAMS_GROUP_METADATA,
        schemas.STREAMS_GROUP_MEMBER_METADATA,
        schemas.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
        schemas.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        schemas.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        values.StreamsGroupKey,
        values.StreamsMemberKey,
        values.StreamsGroupTargetAssignmentMetadataValue,
        (schemas.STREAMS_GROUP_TOPOLOGY,),
    )
    nothing = NO_TASKS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = -1
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.topology: StreamsGroupTopologyValue | None = None
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.offsets: dict[str, Mapping[Task, int]] = {}
        self.end_offsets: dict[str, Mapping[Task, int]] = {}

    def new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)

    @property
    def state_name(self) -> str:
        is_ready = self.topology is not None and self.validated_topology_epoch == self.topology.epoch
        return super().state_name if is_ready or not self.members else "NotReady"

    def topics_of(self, members: Iterable[StreamsMember]) -> frozenset[str]:
        """Those of the topology, whoever the members are."""
        return frozenset() if self.topology is None else required_topics(self.topology)

    def needs_topic(self, topic: str) -> bool:
        return topic in self.topics_of(())

    def is_subscribed_to_topic(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return any(topic in sources_of(each) for each in self.topology.subtopologies)

    def hash_for(self, members: Iterable[StreamsMember], metadata_hash: Callable[[Iterable[str]], int]) -> int:
        """The same as before: only a heartbeat looks at the topology again."""
        return self.metadata_hash

    def held_since(self, member: StreamsMember, partition: OwnedPartition) -> int | None:
        """Of partitions that active tasks read."""
        if self.topology is None:
            return None
        readers = (each.subtopology_id for each in self.topology.subtopologies if partition.topic in sources_of(each))
        held = (member.epochs.get((name, partition.partition)) for name in readers)
        return next((since for since in held if since is not None), None)

    def metadata_value(self, epoch: int, metadata_hash: int) -> StreamsGroupMetadataValue:
        return StreamsGroupMetadataValue(epoch, metadata_hash, self.validated_topology_epoch, self.assignment_configs)

    def shut_down(self, member_id: str) -> None:
        """Note that a member wants all to end; the first one counts, until the group is empty."""
        if self.members and self.shutdown_by is None:
            self.shutdown_by = member_id

    # -- replay

    @classmethod
    def replays(cls) -> Sequence[tuple[RecordSchema[Any, Any], Callable[[Any, Any, Any], None]]]:
        return *super().replays(), (schemas.STREAMS_GROUP_TOPOLOGY, cls.replay_topology)

    def replay_epoch(self, key: Any, value: StreamsGroupMetadataValue | None) -> None:
        super().replay_epoch(key, value)
        if value is not None:
            self.validated_topology_epoch = value.validated_topology_epoch
            self.assignment_configs = value.assignment_configs

    def replay_topology(self, _: Any, value: StreamsGroupTopologyValue | None) -> None:
        self.topology = value
        self.configured = None

    def remove_member(self, member_id: str) -> StreamsMember | None:
        """Remove a member, with what is known of it besides."""
        self.offsets.pop(member_id, None)
        self.end_offsets.pop(member_id, None)
        member = super().remove_member(member_id)
        if not self.members:
            self.shutdown_by = None
        return member
