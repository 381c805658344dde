"""How a member gets from the tasks it has to its target (Kafka's streams `CurrentAssignmentBuilder`).

A task moves in two steps: its owner gives it up, then the next one gets it. No two members have a task active at once,
and no process has it in two roles. A member stays at its epoch until it has reported that it no longer owns what it
must give up; then it gets what is free by that time.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.states import MemberState
from coordinator.group.streams.tasks import NO_TASKS, Task, change, each_task, is_none, overlap, task_ids
from protocol.coordinator_records.streams_group_records import TaskIds, Tasks
from protocol.errors import FencedMemberEpoch


class Owners:
    """Which process has which task now, or must still give it up."""

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


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners
) -> StreamsMember:
    """The member's next state, or the same one if it cannot go on.

    `owned` is what the member reports to own, None if it reports nothing. Raises FencedMemberEpoch for a member in an
    unknown state, unless it owns nothing.
    """
    match member.state:
        case MemberState.STABLE:
            epoch = member.epoch
            if epoch == target_epoch:
                return member
        case MemberState.UNREVOKED_TASKS:
            if owned is None or overlap(owned, member.pending_revocation):
                return member
            epoch = member.epoch + 1
        case MemberState.UNRELEASED_TASKS:
            epoch = member.epoch
        case _:
            if owned is None or not is_none(owned):
                raise FencedMemberEpoch(
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
            epoch = target_epoch
    return _next(member, epoch, target_epoch, target, owned, owners)


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owned: Tasks | None, owners: Owners
) -> StreamsMember:
    changes = [change(now, then) for now, then in zip(member.assigned, target, strict=True)]
    given_up = Tasks(*(each.given_up for each in changes))
    if not is_none(given_up) and (owned is None or overlap(owned, given_up)):
        return member._replace(
            state=MemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=Tasks(*(each.kept for each in changes)),
            pending_revocation=given_up,
        )
    tests = owners.is_free, owners.is_free_as_standby, owners.is_free_as_standby
    assigned, unreleased = [], False
    for each, is_free in zip(changes, tests, strict=True):
        missing = list(each_task(each.missing))
        free = [task for task in missing if is_free(task, member.process_id)]
        unreleased |= len(free) < len(missing)
        assigned.append(task_ids([*each_task(each.kept), *free]))
    tasks = Tasks(*assigned)
    return member._replace(
        state=MemberState.UNRELEASED_TASKS if unreleased else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=tasks,
        pending_revocation=NO_TASKS,
        epochs=_epochs(member, tasks.active, target_epoch),
    )


def _epochs(member: StreamsMember, active: TaskIds, epoch: int) -> dict[Task, int]:
    return {task: member.epochs.get(task, epoch) for task in each_task(active)}
