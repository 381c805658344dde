"""A member of a streams group, and its tasks: partitions by subtopology, in the three roles of `Tasks`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from coordinator.group.modern.group import JOINING, LEFT, LEFT_FOR_A_WHILE, MemberState
from protocol.coordinator_records.streams_group_values import (
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    TaskIds,
    Tasks,
)

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
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=self.user_endpoint,
            client_tags=self.client_tags,
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
            state=MemberState.of(value.state - _FIRST_STATE),
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
