"""StreamsGroupHeartbeat (KIP-1071; Kafka's `GroupMetadataManager.streamsGroupHeartbeat`).

A heartbeat is one pass: the member is looked up or made, the topology is looked at if topics have changed, the group
epoch rises if it must, a new target is made if it is time for one, and the member goes one step towards it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from coordinator.group.modern.group import JOINING, LEFT_FOR_A_WHILE, UNCHANGED, MemberState
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import (
    Change,
    check_epoch,
    check_room,
    joining_member,
    known_member,
    next_epoch,
    next_step,
    owns_only,
    record_step,
    record_target,
    remove,
    target_of,
)
from coordinator.group.streams.assignor import NO_OFFSETS, AssignorMember, assign
from coordinator.group.streams.group import (
    NO_TASKS,
    Owners,
    StreamsGroup,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    StreamsMember,
    Task,
    each_task,
    endpoints_of,
)
from coordinator.group.streams.topology import ConfiguredTopology, Problem, Status, configure, required_topics
from coordinator.runtime.outcome import Outcome
from protocol.coordinator_records.streams_group_records import (
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    Tasks,
)
from protocol.errors import GroupIdNotFound, InvalidRequest

logger = structlog.get_logger(__name__)

INITIAL_DELAY = Problem(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
INTERVAL = Problem(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")

_DELAY_TIMER = "streams-initial-rebalance"


def streams_group_heartbeat(groups: ModernGroups, request: StreamsHeartbeat) -> Outcome[StreamsHeartbeatAnswer]:
    """Handle a request that passes `check_request`. Raises KafkaErrors.

    A classic group without members becomes a streams group.
    """
    if request.member_epoch < JOINING:
        return _leave(groups, request)
    joins = request.member_epoch == JOINING
    change = Change()
    classic = groups.classic.by_id.get(request.group_id) if joins else None
    if classic is not None and not classic.members:
        change.records += groups.classic.deletion(request.group_id)
        group = None
    else:
        group = groups.find_only(StreamsGroup, request.group_id)
    if group is None:
        if not joins:
            raise GroupIdNotFound(f"Streams group {request.group_id} not found.")
        group = StreamsGroup(request.group_id)
    return _Heartbeat(groups, group, request, change).outcome()


def _leave(groups: ModernGroups, request: StreamsHeartbeat) -> Outcome[StreamsHeartbeatAnswer]:
    """Handle a heartbeat with epoch -1, or -2 of a static member that will come back. Raises KafkaErrors."""
    group = groups.get(StreamsGroup, request.group_id)
    member = known_member(group, request.member_id, request.instance_id)
    for_a_while = request.member_epoch == LEFT_FOR_A_WHILE
    logger.info("member left the streams group", group=group.group_id, member=member.member_id, for_a_while=for_a_while)
    if for_a_while:
        change = Change()
        change.records.append(group.assignment_record(member.away()))
    else:
        change = remove(groups, group, [member])
    if request.shuts_down:
        change.after.append(lambda: group.shut_down(member.member_id))
    return change.outcome(StreamsHeartbeatAnswer(request.member_id, request.member_epoch))


# -- the delay of a group's first target


def is_delayed(groups: ModernGroups, group_id: str) -> bool:
    """Whether the first target waits for more members."""
    return (_DELAY_TIMER, group_id) in groups.context.timers


def _start_delay(groups: ModernGroups, group_id: str, delay_ms: int) -> None:
    groups.context.timers.schedule((_DELAY_TIMER, group_id), delay_ms, lambda _: _assign_delayed(groups, group_id))


def _assign_delayed(groups: ModernGroups, group_id: str) -> Outcome[None] | None:
    """Make the first target of a group: the time in which its members could come is over."""
    group = groups.find(StreamsGroup, group_id)
    if group is None or not group.members or group.configured is None or group.epoch == group.assignment_epoch:
        return None
    change = Change()
    targets = _make_target(groups, group, group.members, group.configured)
    record_target(group, targets, group.epoch, groups.context.clock.wall_ms(), change)
    return change.outcome(None)


def _make_target(
    groups: ModernGroups, group: StreamsGroup, members: Mapping[str, StreamsMember], configured: ConfiguredTopology
) -> Mapping[str, Tasks]:
    """The tasks of each member, none while the topology is not ready; a successor had what its predecessor has."""
    if not configured.is_ready:
        return dict.fromkeys(members, NO_TASKS)
    known = [
        AssignorMember(key, member.process_id, group.target_of(member), group.offsets.get(key, NO_OFFSETS))
        for key, member in members.items()
    ]
    return assign(known, configured.subtopologies, groups.services.streams.standby_replicas_of(group.group_id))


class _Heartbeat:
    """What one heartbeat does to a group."""

    def __init__(self, groups: ModernGroups, group: StreamsGroup, request: StreamsHeartbeat, change: Change) -> None:
        self._groups = groups
        self._config = groups.services.streams
        self._group = group
        self._request = request
        self._joins = request.member_epoch == JOINING
        self._change = change
        self._statuses: list[Problem] = []
        self._before, self._is_successor = self._member_before()
        self._member = _updated(self._before, request)
        self._topology = self._topology_after()
        self._configured = ConfiguredTopology(-1)

    def outcome(self) -> Outcome[StreamsHeartbeatAnswer]:
        bump = self._record_member()
        bump |= self._look_at_topology()
        self._raise_epoch(bump)
        target_epoch, target = self._target()
        after = self._reconcile(target_epoch, target)
        answer = self._answer(after)
        self._note(after, answer)
        return self._change.outcome(answer)

    # -- the member and the topology

    def _member_before(self) -> tuple[StreamsMember, bool]:
        """The member before the request, and whether it takes the place of another. A new one has nothing yet.

        Raises GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId.
        """
        group, request = self._group, self._request
        if self._joins:
            check_room(group, request.member_id, request.instance_id, self._config.max_size)
            written = len(self._change.records)
            member = joining_member(group, request.member_id, request.instance_id, self._change)
            return member, len(self._change.records) > written
        member = known_member(group, request.member_id, request.instance_id)
        check_epoch(group, member, request.member_epoch, may_be_late=owns_only(request.owned, member.assigned))
        return member, False

    def _topology_after(self) -> StreamsGroupTopologyValue:
        """Raises InvalidRequest if the member has another topology than the group, unless it is an older one."""
        wanted, known = self._request.topology, self._group.topology
        if known is None:
            if wanted is None:
                raise InvalidRequest("The group has no topology.")
            return wanted
        if wanted is not None and wanted.epoch >= known.epoch and wanted != known:
            raise InvalidRequest("Topology updates are not supported yet.")
        return known

    def _record_member(self) -> bool:
        """Whether the group epoch must rise because of the member."""
        before, member = self._before, self._member
        is_new = member.member_id not in self._group.members and not self._is_successor
        if not is_new and before == member:
            return False
        self._change.records.append(self._group.member_record(member))
        return is_new or member.instance_id is None or _assigned_by(before) != _assigned_by(member)

    def _look_at_topology(self) -> bool:
        """Look at the topology again if it must be; whether the group epoch must rise because of it."""
        group, topology = self._group, self._topology
        if group.topology is None:
            (schema,) = group.types.besides
            self._change.records.append(group.record(schema, topology))
        self._metadata_hash = group.metadata_hash
        if group.configured is not None and group.is_fresh:
            self._configured = group.configured
        else:
            self._metadata_hash = self._groups.metadata_hash(required_topics(topology))
            self._configured = configure(topology, self._groups.partition_count)
        if self._configured.is_ready:
            _check_tasks(self._configured, self._request.owned or NO_TASKS)
        self._offsets, self._end_offsets = _by_task(self._request.offsets), _by_task(self._request.end_offsets)
        if self._member.topology_epoch < topology.epoch:
            text = (
                f"The member's topology epoch {self._member.topology_epoch} is behind the group's topology epoch "
                f"{topology.epoch}."
            )
            self._statuses.append(Problem(Status.STALE_TOPOLOGY, text))
        return group.topology is None or self._metadata_hash != group.metadata_hash

    def _raise_epoch(self, bump: bool) -> None:
        group, change = self._group, self._change
        validated = self._topology.epoch if self._configured.is_ready else -1
        configs = self._config.assignment_configs_of(group.group_id)
        if bump or validated != group.validated_topology_epoch or configs != group.assignment_configs:
            change.epoch = group.epoch + 1
            value = StreamsGroupMetadataValue(change.epoch, self._metadata_hash, validated, configs)
            change.records.append(group.record(group.types.group, value))
            logger.info("bumped group epoch", group=group.group_id, epoch=change.epoch)

    # -- the assignment

    def _target(self) -> tuple[int, Tasks]:
        """The epoch and the tasks that the member shall reach; a new target if it is time for one."""
        group, groups, change = self._group, self._groups, self._change
        delay_ms = self._config.initial_rebalance_delay_of(group.group_id)
        starts = not group.members and delay_ms > 0
        if starts and not is_delayed(groups, group.group_id):
            change.after.append(lambda: _start_delay(groups, group.group_id, delay_ms))
        if starts or is_delayed(groups, group.group_id):
            self._statuses.append(INITIAL_DELAY)
            return group.assignment_epoch, NO_TASKS
        epoch, target = target_of(
            groups, group, self._member, lambda members: _make_target(groups, group, members, self._configured), change
        )
        if epoch != change.epoch_of(group):
            self._statuses.append(INTERVAL)
        return epoch, target

    def _reconcile(self, target_epoch: int, target: Tasks) -> StreamsMember:
        """The member's next state, or the same one if it cannot go on. Raises FencedMemberEpoch."""
        member, owned = self._member, self._request.owned
        epoch = next_epoch(member, member.pending_revocation, owned, target_epoch)
        if epoch is None:
            return member
        if member.state is MemberState.UNREVOKED:
            epoch += 1
        owners, process_id = Owners(self._group.members_with(member).values()), member.process_id

        def may_be_active(subtopology: str, partition: int) -> bool:
            return owners.is_free((subtopology, partition), process_id)

        def may_be_standby(subtopology: str, partition: int) -> bool:
            return owners.is_free_as_standby((subtopology, partition), process_id)

        roles = may_be_active, may_be_standby, may_be_standby
        step = next_step(epoch, target_epoch, member.assigned, target, owned, roles)
        assigned = Tasks(*step.assigned)
        epochs = {task: member.epochs.get(task, target_epoch) for task in each_task(assigned.active)}
        after = member._replace(
            state=step.state,
            epoch=step.epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            pending_revocation=Tasks(*step.pending),
            epochs=member.epochs if step.state is MemberState.UNREVOKED else epochs,
        )
        record_step(self._groups, self._group, member, after, self._change)
        return after

    # -- the answer

    def _answer(self, after: StreamsMember) -> StreamsHeartbeatAnswer:
        config, group, request = self._config, self._group, self._request
        has_other_tasks = after.assigned != self._before.assigned
        has_moved = after.user_endpoint != self._before.user_endpoint
        endpoint_epoch = group.endpoint_epoch + (has_moved or (has_other_tasks and after.user_endpoint is not None))
        endpoints = None
        if endpoint_epoch != request.endpoint_epoch:
            members = group.members_with(after).values()
            endpoints = endpoints_of(members, self._configured, self._groups.partition_count)
        # As in Kafka, a new group begins with 0 nevertheless.
        is_known = self._groups.by_id.get(group.group_id) is group
        self._add_statuses(after)
        return StreamsHeartbeatAnswer(
            after.member_id,
            after.epoch,
            config.heartbeat_interval_of(group.group_id),
            config.task_offset_interval_of(group.group_id),
            config.acceptable_recovery_lag_of(group.group_id),
            tuple(self._statuses),
            after.assigned if self._joins or has_other_tasks else None,
            endpoint_epoch if is_known else 0,
            endpoints,
            self._configured.to_create,
        )

    def _add_statuses(self, after: StreamsMember) -> None:
        if self._configured.problem is not None:
            self._statuses.append(self._configured.problem)
        requester = self._group.shutdown_by or (after.member_id if self._request.shuts_down else None)
        if requester is not None:
            text = (
                f"Streams group member {requester} encountered a fatal error and requested a shutdown for the entire "
                "application."
            )
            self._statuses.append(Problem(Status.SHUTDOWN_APPLICATION, text))
        tags = self._config.tags_of(self._group.group_id)
        missing = [tag for tag in tags if tag not in dict(after.client_tags)]
        if missing and self._request.knows_tags:
            text = f"Missing required client tags: {', '.join(missing)}; set client.tag.<key> in the Streams config."
            self._statuses.append(Problem(Status.MISSING_CLIENT_TAGS, text))

    def _note(self, after: StreamsMember, answer: StreamsHeartbeatAnswer) -> None:
        """Soft state, once the records are written."""
        groups, shuts_down, group_id = self._groups, self._request.shuts_down, self._group.group_id
        configured, offsets, end_offsets = self._configured, self._offsets, self._end_offsets

        def note() -> None:
            group = groups.find(StreamsGroup, group_id)
            if group is None:
                return
            groups.start_session(group, after)
            group.configured, group.is_fresh, group.endpoint_epoch = configured, True, answer.endpoint_epoch
            if offsets is not None:
                group.offsets[after.member_id] = offsets
            if end_offsets is not None:
                group.end_offsets[after.member_id] = end_offsets
            if shuts_down:
                group.shut_down(after.member_id)

        self._change.after.append(note)


def _updated(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """The member with what it says about itself."""
    timeout_ms = request.rebalance_timeout_ms
    joins = request.member_epoch == JOINING
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=request.user_endpoint if joins or request.user_endpoint is not None else member.user_endpoint,
        client_tags=member.client_tags if request.client_tags is None else tuple(sorted(request.client_tags)),
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _assigned_by(member: StreamsMember) -> tuple[object, ...]:
    """What the assignment depends on."""
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def _by_task(offsets: Sequence[tuple[Task, int]] | None) -> dict[Task, int] | None:
    """Raises InvalidRequest if a task is there twice."""
    if offsets is None:
        return None
    by_task = dict(offsets)
    if len(by_task) < len(offsets):
        raise InvalidRequest("TaskOffsets and TaskEndOffsets may name each task only once.")
    return by_task


def _check_tasks(configured: ConfiguredTopology, owned: Tasks) -> None:
    """Raises InvalidRequest if the member owns tasks that there are not."""
    for role in owned:
        for subtopology, partitions in role.items():
            known = configured.subtopologies.get(subtopology)
            if known is None:
                raise InvalidRequest(f"Subtopology {subtopology} does not exist in the topology.")
            for partition in sorted(partitions):
                if not 0 <= partition < known.task_count:
                    raise InvalidRequest(
                        f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this "
                        f"subtopology: {known.task_count}"
                    )
