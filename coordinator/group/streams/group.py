"""A streams group (KIP-1071) and its members: durable state, which only the replay of records changes.

Members have tasks, which are partitions by subtopology, in the three roles of `Tasks`.

| state       | when                                                                     |
|-------------|--------------------------------------------------------------------------|
| Empty       | there are no members                                                     |
| NotReady    | topics that the topology needs are missing, or have the wrong size       |
| Assigning   | the target assignment is older than the group epoch                      |
| Reconciling | some member has not reached the target yet, or is away for a while       |
| Stable      | otherwise                                                                |

The request and the answer of StreamsGroupHeartbeat are here too; their times are in ms. An answer tells what each
process of the group can be asked for, for interactive queries (Kafka's `EndpointToPartitionsManager`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.group.kinds import GroupType, OwnedPartition
from coordinator.group.modern.group import (
    JOINING,
    LEFT,
    LEFT_FOR_A_WHILE,
    UNCHANGED,
    MemberState,
    ModernGroup,
    RecordTypes,
)
from coordinator.group.modern.heartbeat import check_text
from coordinator.group.modern.topics import TopicsPort
from coordinator.group.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    PartitionCount,
    Problem,
    check_topology,
    required_topics,
    sources_of,
)
from protocol.coordinator_records import streams_group_records as schemas
from protocol.coordinator_records.record_schema import RecordSchema
from protocol.coordinator_records.streams_group_records import (
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    TaskIds,
    Tasks,
)
from protocol.errors import InvalidRequest

Task = tuple[str, int]
"""A subtopology and a partition."""

NO_TASK_IDS: TaskIds = {}
NO_TASKS = Tasks(NO_TASK_IDS, NO_TASK_IDS, NO_TASK_IDS)
NO_EPOCHS: Mapping[Task, int] = {}

_FIRST_STATE = 1
"""That of a stable member in a record, where those of consumer groups begin with 0."""


def each_task(tasks: TaskIds) -> Iterator[Task]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def task_ids(tasks: Iterable[Task]) -> TaskIds:
    by_subtopology: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        by_subtopology.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in sorted(by_subtopology.items())}


class StreamsMember(NamedTuple):
    """Kafka's `StreamsGroupMember`. All of it is durable.

    `epoch` is LEFT_FOR_A_WHILE for a static member that is expected back. `assigned` is what the member may use now,
    `pending_revocation` what it must give up; `epochs` are, by active task, those at which it got it. The timeout
    is in ms.
    """

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    pending_revocation: Tasks = NO_TASKS
    epochs: Mapping[Task, int] = NO_EPOCHS

    @property
    def is_classic(self) -> bool:
        return False

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def away(self) -> StreamsMember:
        """The static member once it has left for a while: nothing that it commits late counts as of before."""
        return self._replace(
            epoch=LEFT_FOR_A_WHILE,
            pending_revocation=NO_TASKS,
            epochs=dict.fromkeys(each_task(self.assigned.active), 0),
        )

    # -- records

    def metadata_value(self) -> StreamsGroupMemberMetadataValue:
        return StreamsGroupMemberMetadataValue(
            *(getattr(self, name) for name in StreamsGroupMemberMetadataValue._fields)
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        return self._replace(**value._asdict())

    def assignment_value(self) -> StreamsGroupCurrentMemberAssignmentValue:
        state = self.state if self.state is MemberState.UNKNOWN else self.state + _FIRST_STATE
        return StreamsGroupCurrentMemberAssignmentValue(
            self.epoch, self.previous_epoch, int(state), self.assigned, self.pending_revocation, self.epochs
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        return self._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state - _FIRST_STATE),
            assigned=value.assigned,
            pending_revocation=value.pending_revocation,
            epochs=value.epochs,
        )

    def without_assignment(self) -> StreamsMember:
        return StreamsMember(self.member_id, LEFT, LEFT).with_metadata(self.metadata_value())


class Owners:
    """Which process has which task now, or must still give it up.

    No two members have a task active at once, and no process has it in two roles.
    """

    def __init__(self, members: Iterable[StreamsMember]) -> None:
        self._active: dict[Task, str] = {}
        self._others: set[tuple[str, Task]] = set()
        for member in members:
            for tasks in (member.assigned, member.pending_revocation):
                self._active.update(dict.fromkeys(each_task(tasks.active), member.process_id))
                for role in (tasks.standby, tasks.warmup):
                    self._others.update((member.process_id, task) for task in each_task(role))

    def is_free(self, task: Task, process_id: str) -> bool:
        """Whether the task may become active on the process."""
        return task not in self._active and (process_id, task) not in self._others

    def is_free_as_standby(self, task: Task, process_id: str) -> bool:
        return self._active.get(task) != process_id and (process_id, task) not in self._others


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
        schemas.StreamsGroupTargetAssignmentMetadataValue,
        (schemas.STREAMS_GROUP_TOPOLOGY,),
    )
    new_member = StreamsMember
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

    @property
    def state_name(self) -> str:
        is_ready = self.topology is not None and self.validated_topology_epoch == self.topology.epoch
        return super().state_name if is_ready or not self.members else "NotReady"

    def subscription(self, member: StreamsMember) -> frozenset[str]:
        return self._required_topics()

    def topics_of(self, members: Collection[StreamsMember], topics: TopicsPort) -> frozenset[str]:
        """Those of the topology, whoever the members are."""
        return self._required_topics()

    def needs_topic(self, topic: str) -> bool:
        return topic in self._required_topics()

    def _required_topics(self) -> frozenset[str]:
        return frozenset() if self.topology is None else required_topics(self.topology)

    def is_subscribed_to_topic(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return any(topic in sources_of(each) for each in self.topology.subtopologies)

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


class StreamsHeartbeat(NamedTuple):
    """A request; None, or UNCHANGED, for what the member reports as unchanged.

    `owned` is None unless the member reports its tasks in every role. `endpoint_epoch` is the last epoch of endpoints
    that it knows. `offsets` and `end_offsets` are those of the changelogs of tasks, summed up, each task once.
    `shuts_down`: all members shall end. `knows_tags`: the version has a status for tags that are missing.
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topology: StreamsGroupTopologyValue | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    offsets: Sequence[tuple[Task, int]] | None = None
    end_offsets: Sequence[tuple[Task, int]] | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""
    knows_tags: bool = True


class EndpointPartitions(NamedTuple):
    """What a process can be asked for: the partitions of its active tasks, and of the others, by topic."""

    endpoint: Endpoint
    active: Mapping[str, Sequence[int]]
    standby: Mapping[str, Sequence[int]]


class StreamsHeartbeatAnswer(NamedTuple):
    """An answer. `assigned` is None if it is what the member knows, `endpoints` likewise.

    `to_create` are the internal topics that the broker has to make.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    statuses: tuple[Problem, ...] = ()
    assigned: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    to_create: tuple[InternalTopic, ...] = ()


def check_request(request: StreamsHeartbeat) -> None:
    """Raises InvalidRequest, or what `check_topology` does, if the request is wrong in itself."""
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        check_text(text, name)
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or any(request.owned):
            raise InvalidRequest("ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining.")
        if request.topology is None:
            raise InvalidRequest("Topology must be non-null when (re-)joining.")
        check_topology(request.topology)
        return
    if request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")
    if request.member_epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    if request.member_epoch < LEFT_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")


def endpoints_of(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, partition_count: PartitionCount
) -> tuple[EndpointPartitions, ...]:
    """An entry for each member that named an endpoint."""
    return tuple(
        EndpointPartitions(
            member.user_endpoint,
            partitions_of([member.assigned.active], configured, partition_count),
            partitions_of([member.assigned.standby, member.assigned.warmup], configured, partition_count),
        )
        for member in members
        if member.user_endpoint is not None
    )


def partitions_of(
    roles: Iterable[TaskIds], configured: ConfiguredTopology, partition_count: PartitionCount
) -> dict[str, list[int]]:
    """The partitions that tasks read, by topic."""
    found: dict[str, set[int]] = {}
    for subtopology, index in (task for role in roles for task in each_task(role)):
        known = configured.subtopologies.get(subtopology)
        for topic in () if known is None else known.sources:
            if index < (partition_count(topic) or 0):
                found.setdefault(topic, set()).add(index)
    return {topic: sorted(indexes) for topic, indexes in sorted(found.items())}
