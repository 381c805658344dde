"""StreamsGroupHeartbeat (KIP-1071; Kafka's `GroupMetadataManager.streamsGroupHeartbeat`).

A heartbeat is one pass: the member is found or made, the topology is looked at if topics have changed, the group epoch
rises if it must, a new target is made if it is time for one, and the member goes one step towards it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from coordinator.group.consumer.change import Change
from coordinator.group.consumer.membership import check_room
from coordinator.group.streams import records
from coordinator.group.streams.configured import ConfiguredTopology, Problem, Status, configure
from coordinator.group.streams.endpoints import endpoints_of
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.groups import StreamsGroups
from coordinator.group.streams.leave import leave, shut_down
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.membership import member_before
from coordinator.group.streams.messages import (
    JOINING,
    UNCHANGED,
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
)
from coordinator.group.streams.reconciliation import Owners, reconcile
from coordinator.group.streams.states import MemberState
from coordinator.group.streams.target import new_target, target_records
from coordinator.group.streams.tasks import NO_TASKS, Task
from coordinator.group.streams.topology import required_topics
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


def heartbeat(groups: StreamsGroups, request: StreamsHeartbeat) -> Outcome[StreamsHeartbeatAnswer]:
    """Handle a request that passes `check_request`; no group of another kind has its id. Raises KafkaErrors."""
    if request.member_epoch < JOINING:
        return leave(groups, request)
    group = groups.find(request.group_id)
    if group is None:
        if request.member_epoch != JOINING:
            raise GroupIdNotFound(f"Streams group {request.group_id} not found.")
        group = StreamsGroup(request.group_id)
    if request.member_epoch == JOINING:
        check_room(group, request.member_id, request.instance_id, groups.config.max_size)
    return _Heartbeat(groups, group, request).outcome()


def assign_delayed(groups: StreamsGroups, group_id: str) -> Outcome[None] | None:
    """Make the first target of a group: the time in which its members could come is over."""
    group = groups.find(group_id)
    if group is None or not group.members or group.configured is None or group.epoch == group.assignment_epoch:
        return None
    now_ms = groups.context.clock.wall_ms()
    replicas = groups.config.standby_replicas_of(group_id)
    found = new_target(group, group.members.values(), group.target, group.configured, replicas)
    return Outcome(target_records(group, found, group.target, group.epoch, now_ms))


class _Heartbeat:
    """What one heartbeat does to a group."""

    def __init__(self, groups: StreamsGroups, group: StreamsGroup, request: StreamsHeartbeat) -> None:
        self._groups = groups
        self._group = group
        self._request = request
        self._joins = request.member_epoch == JOINING
        self._change = Change()
        self._statuses: list[Problem] = []
        self._before = member_before(group, request, self._change)
        self._is_successor = bool(self._change.records)
        self._member = _updated(self._before, request)
        self._topology = self._topology_after()
        self._configured = ConfiguredTopology(-1)
        self._epoch = group.epoch

    def outcome(self) -> Outcome[StreamsHeartbeatAnswer]:
        bump = self._record_member()
        bump |= self._record_topology()
        self._raise_epoch(bump)
        target_epoch, target = self._target()
        after = self._reconcile(target_epoch, target)
        answer = self._answer(after)
        self._note(after)
        return self._change.outcome(answer)

    # -- the member and the topology

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
        if not is_new and before.metadata_value() == member.metadata_value():
            return False
        self._change.records.append(records.member(self._group.group_id, member))
        return is_new or member.instance_id is None or _assigned_by(before) != _assigned_by(member)

    def _record_topology(self) -> bool:
        """Look at the topology again if it must be; whether the group epoch must rise because of it."""
        group, topology = self._group, self._topology
        if group.topology is None:
            self._change.records.append(records.topology(group.group_id, topology))
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
        group = self._group
        validated = self._topology.epoch if self._configured.is_ready else -1
        configs = self._groups.config.assignment_configs_of(group.group_id)
        if bump or validated != group.validated_topology_epoch or configs != group.assignment_configs:
            self._epoch = group.epoch + 1
            value = StreamsGroupMetadataValue(self._epoch, self._metadata_hash, validated, configs)
            self._change.records.append(records.metadata(group.group_id, value))
            logger.info("bumped group epoch", group=group.group_id, epoch=self._epoch)

    # -- the assignment

    def _target(self) -> tuple[int, Tasks]:
        """The epoch and the tasks that the member shall reach; a new target if it is time for one."""
        group, groups = self._group, self._groups
        group_id, member_id = group.group_id, self._member.member_id
        delay_ms = groups.config.initial_rebalance_delay_of(group_id)
        starts = not group.members and delay_ms > 0
        if starts and not groups.is_delayed(group_id):
            self._change.after.append(lambda: groups.start_delay(group_id, delay_ms))
        if starts or groups.is_delayed(group_id):
            self._statuses.append(INITIAL_DELAY)
            return group.assignment_epoch, NO_TASKS
        former = self._former_target()
        if self._epoch == group.assignment_epoch:
            return group.assignment_epoch, former.get(member_id, NO_TASKS)
        now_ms = groups.context.clock.wall_ms()
        is_first = not group.members or not group.assigned_ms
        if not is_first and now_ms - group.assigned_ms < groups.config.assignment_interval_of(group_id):
            self._statuses.append(INTERVAL)
            return group.assignment_epoch, former.get(member_id, NO_TASKS)
        members = self._members_with(self._member)
        found = new_target(
            group, members.values(), former, self._configured, groups.config.standby_replicas_of(group_id)
        )
        self._change.records += target_records(group, found, former, self._epoch, now_ms)
        return self._epoch, found[member_id]

    def _former_target(self) -> Mapping[str, Tasks]:
        """The last target; a successor has what its predecessor had."""
        if not self._is_successor:
            return self._group.target
        before = self._group.static_member(self._member.instance_id or "")
        tasks = NO_TASKS if before is None else self._group.target_of(before.member_id)
        return {**self._group.target, self._member.member_id: tasks}

    def _members_with(self, member: StreamsMember) -> dict[str, StreamsMember]:
        """The members after this request."""
        replaced = self._group.static_ids.get(member.instance_id) if member.instance_id is not None else None
        others = {key: other for key, other in self._group.members.items() if key != replaced}
        return {**others, member.member_id: member}

    def _reconcile(self, target_epoch: int, target: Tasks) -> StreamsMember:
        member, groups, group_id = self._member, self._groups, self._group.group_id
        if member.is_reconciled_to(target_epoch):
            return member
        owners = Owners(self._members_with(member).values())
        after = reconcile(member, target_epoch, target, self._request.owned, owners)
        if after == member:
            return member
        self._change.records.append(records.current_assignment(group_id, after))
        if after.state is MemberState.UNREVOKED_TASKS:
            self._change.after.append(lambda: groups.timeouts.start_rebalance(group_id, after))
        else:
            self._change.after.append(lambda: groups.timeouts.end_rebalance(group_id, after.member_id))
        return after

    # -- the answer

    def _answer(self, after: StreamsMember) -> StreamsHeartbeatAnswer:
        config, group, request = self._groups.config, self._group, self._request
        has_other_tasks = after.assigned != self._before.assigned
        has_moved = after.user_endpoint != self._before.user_endpoint
        endpoint_epoch = group.endpoint_epoch + (has_moved or (has_other_tasks and after.user_endpoint is not None))
        endpoints = None
        if endpoint_epoch != request.endpoint_epoch:
            endpoints = self._endpoints(after)
        is_known = self._groups.find(group.group_id) is group  # as in Kafka, a new group begins with 0 nevertheless
        self._endpoint_epoch = endpoint_epoch if is_known else 0
        self._add_statuses(after)
        return StreamsHeartbeatAnswer(
            after.member_id,
            after.epoch,
            config.heartbeat_interval_of(group.group_id),
            config.task_offset_interval_of(group.group_id),
            config.acceptable_recovery_lag_of(group.group_id),
            tuple(self._statuses),
            after.assigned if self._joins or has_other_tasks else None,
            self._endpoint_epoch,
            endpoints,
            self._configured.to_create,
        )

    def _endpoints(self, after: StreamsMember) -> tuple[EndpointPartitions, ...]:
        return endpoints_of(self._members_with(after).values(), self._configured, self._groups.partition_count)

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
        tags = self._groups.config.tags_of(self._group.group_id)
        missing = [tag for tag in tags if tag not in dict(after.client_tags)]
        if missing and self._request.knows_tags:
            text = f"Missing required client tags: {', '.join(missing)}; set client.tag.<key> in the Streams config."
            self._statuses.append(Problem(Status.MISSING_CLIENT_TAGS, text))

    def _note(self, after: StreamsMember) -> None:
        """Soft state, once the records are written."""
        groups, request, group_id = self._groups, self._request, self._group.group_id
        configured, endpoint_epoch = self._configured, self._endpoint_epoch
        offsets, end_offsets = self._offsets, self._end_offsets

        def note() -> None:
            group = groups.find(group_id)
            groups.timeouts.start_session(group_id, after)
            if group is None:
                return
            group.configured, group.is_fresh, group.endpoint_epoch = configured, True, endpoint_epoch
            if offsets is not None:
                group.offsets[after.member_id] = offsets
            if end_offsets is not None:
                group.end_offsets[after.member_id] = end_offsets
            if request.shuts_down:
                shut_down(groups, group_id, after.member_id)

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
