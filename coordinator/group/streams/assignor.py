"""The assignor `sticky` (Kafka 4.4's `StickyTaskAssignor`).

Every task is active on one member. A stateful task has standbys on other processes, as many as are asked for and
possible. Members keep what they had as long as that is not more than their share; what is left goes first to who has
the state already, then to the process with the least tasks for each of its members.

As in Kafka 4.4.0, tags of racks do not count, no task is warmed up, and warm-ups of a later release count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.group.streams.configured import ConfiguredSubtopology
from coordinator.group.streams.priority_queue import PriorityQueue
from coordinator.group.streams.tasks import NO_TASK_IDS, Task, each_task, task_ids
from protocol.coordinator_records.streams_group_records import Tasks

NO_OFFSETS: Mapping[Task, int] = {}


class AssignorMember(NamedTuple):
    """A member; `tasks` are those of the last target, `offsets` what it has on its disk of tasks with state."""

    member_id: str
    process_id: str
    tasks: Tasks
    offsets: Mapping[Task, int] = NO_OFFSETS


def assign(
    members: Iterable[AssignorMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
) -> dict[str, Tasks]:
    """The tasks of each member, by member id; at least one member."""
    return _Assignment(list(members), subtopologies, standby_replicas).tasks()


class _Share:
    """How many tasks a member may keep: the rounded-up mean of those members that have not got their share yet."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members

    @property
    def most(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def note(self, count: int) -> None:
        """A member has so many tasks now."""
        if count == self.most:
            self._tasks -= count
            self._members -= 1


class _Process:
    """The members of one process, and how many tasks they have."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self._by_count: PriorityQueue[str] | None = None

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def add(self, task: Task, member_id: str) -> None:
        self._by_count = None
        self._put(task, member_id)

    def add_to_least_loaded(self, task: Task) -> str:
        """Returns who has the task now."""
        if self._by_count is None:
            self._by_count = PriorityQueue((count, member_id) for member_id, count in self.counts.items())
        member_id = self._by_count.poll()
        self._put(task, member_id)
        self._by_count.add(self.counts[member_id], member_id)
        return member_id

    def _put(self, task: Task, member_id: str) -> None:
        self.counts[member_id] += 1
        self.tasks.add(task)


class _Assignment:
    def __init__(
        self, members: list[AssignorMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
    ) -> None:
        self._replicas = standby_replicas
        self._process_of: dict[str, _Process] = {}
        by_id: dict[str, _Process] = {}
        for member in members:
            process = by_id.setdefault(member.process_id, _Process())
            process.counts[member.member_id] = 0
            self._process_of[member.member_id] = process
        self._processes = list(by_id.values())
        self._active: dict[str, list[Task]] = {member.member_id: [] for member in members}
        self._standby: dict[str, list[Task]] = {member.member_id: [] for member in members}
        self._had_active = {task: one.member_id for one in members for task in each_task(one.tasks.active)}
        self._had_state = _holders(members)
        tasks = [(name, index) for name, each in subtopologies.items() for index in range(each.task_count)]
        stateful = [task for task in tasks if subtopologies[task[0]].is_stateful]
        self._active_share = _Share(len(tasks), len(members))
        self._whole_share = _Share(len(tasks) + len(stateful) * standby_replicas, len(members))
        self._assign_active(tasks)
        if standby_replicas:
            self._assign_standbys(stateful)

    def tasks(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(task_ids(active), task_ids(self._standby[member_id]), NO_TASK_IDS)
            for member_id, active in self._active.items()
        }

    # -- active tasks

    def _assign_active(self, tasks: list[Task]) -> None:
        """Partition by partition what may stay; subtopology by subtopology what must be given to somebody."""
        left = [task for task in sorted(tasks, key=_by_partition) if not self._keeps(task, self._had_active.get(task))]
        left = [task for task in left if not self._keeps(task, self._least_loaded(self._had_state.get(task, ())))]
        queue = self._by_load()
        for task in sorted(left):
            process = queue.poll()
            self._note(task, process.add_to_least_loaded(task), self._active)
            queue.add(process.load, process)

    def _by_load(self) -> PriorityQueue[_Process]:
        return PriorityQueue((process.load, process) for process in self._processes)

    def _keeps(self, task: Task, member_id: str | None) -> bool:
        """Give the task to a member that has its state, if that has not got its share of active tasks yet."""
        if member_id is None or self._count(member_id) >= self._active_share.most:
            return False
        self._add(task, member_id, self._active)
        return True

    def _add(self, task: Task, member_id: str, role: dict[str, list[Task]]) -> None:
        self._process_of[member_id].add(task, member_id)
        self._note(task, member_id, role)

    def _note(self, task: Task, member_id: str, role: dict[str, list[Task]]) -> None:
        """The member's process has been given the task."""
        role[member_id].append(task)
        if role is self._active:
            self._active_share.note(self._count(member_id))
        self._whole_share.note(self._count(member_id))

    def _count(self, member_id: str) -> int:
        return self._process_of[member_id].counts[member_id]

    def _least_loaded(self, member_ids: Iterable[str], without: Task | None = None) -> str | None:
        """Of these members the one with the least to do, not on a process that has the task `without`."""
        found = None
        for member_id in member_ids:
            if without is not None and without in self._process_of[member_id].tasks:
                continue
            if found is None or self._is_below(member_id, found):
                found = member_id
        return found

    def _is_below(self, member_id: str, other: str) -> bool:
        less = self._process_of[member_id].load < self._process_of[other].load
        return less and self._count(member_id) < self._count(other)

    # -- standbys

    def _assign_standbys(self, stateful: list[Task]) -> None:
        """The last partitions first, so that what is heavy with active tasks gets its standbys last."""
        left: list[tuple[Task, int]] = []
        for task in sorted(stateful, key=_by_partition, reverse=True):
            missing = self._replicas
            while missing and self._keeps_standby(task):
                missing -= 1
            if missing:
                left.append((task, missing))
        queue = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                self._give_standby(task, queue)

    def _give_standby(self, task: Task, queue: PriorityQueue[_Process]) -> None:
        """Give a standby to the process with the least load of those without the task, if there is one."""
        polled: list[_Process] = []
        while queue:
            polled.append(queue.poll())
            if task not in polled[-1].tasks:
                self._note(task, polled[-1].add_to_least_loaded(task), self._standby)
                break
        for process in reversed(polled):
            queue.add(process.load, process)

    def _keeps_standby(self, task: Task) -> bool:
        """Give a standby to a member that had the task, active or not, if it has not got its share yet."""
        before = self._had_active.get(task)
        for member_id in (before, self._least_loaded(self._had_state.get(task, ()), task)):
            if member_id is None or task in self._process_of[member_id].tasks:
                continue
            if self._count(member_id) < self._whole_share.most:
                self._add(task, member_id, self._standby)
                return True
        return False


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def _holders(members: Iterable[AssignorMember]) -> dict[Task, list[str]]:
    """Who has the state of a task without being active: standbys before mere files, the newest first."""
    found: dict[Task, list[tuple[bool, int, str]]] = {}
    for member in members:
        held = {*each_task(member.tasks.standby)}
        for task in (*sorted(held), *(task for task in member.offsets if task not in held)):
            found.setdefault(task, []).append((task not in held, -member.offsets.get(task, 0), member.member_id))
    return {task: [each[2] for each in sorted(holders, key=lambda each: each[:2])] for task, holders in found.items()}
