"""Streams groups to be assigned as JSON documents, which Java and Python both read.

`standbys` is the number of standby replicas, `tags` the keys of client tags that name racks. `subtopologies`: number of
tasks, and whether they have state, by name. `members`: each with `id`, `process`, its `tags`, the tasks of the last
target by role (`active`, `standby`, `warmup`: partitions by subtopology) and `offsets`, a list of subtopology,
partition and offset. Once Java was asked there is its `answer`, with the roles `active` and `standby` by member.
`is_only`: Kafka's class has the same one when members and processes have other names, so that nothing in it depends on
the order of hash maps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.group.streams.assignor import AssignorMember, assign
from coordinator.group.streams.configured import ConfiguredSubtopology
from coordinator.group.streams.tasks import Task, each_task
from protocol.coordinator_records.streams_group_records import TaskIds, Tasks

Document = dict[str, Any]
Answer = Mapping[str, Tasks]


def our_answer(document: Document) -> Answer:
    subtopologies = {
        name: ConfiguredSubtopology(count, (), is_stateful)
        for name, (count, is_stateful) in document["subtopologies"].items()
    }
    return assign(map(_member, document["members"]), subtopologies, document["standbys"])


def differs(document: Document) -> str | None:
    """What of our answer is not as good as Kafka's; None if nothing is.

    Ours is the same as Kafka's if Kafka has only one. Otherwise it is as even, has as many standbys of each task, none
    of them on a process that has the task already, and at least as many tasks stay where they are.
    """
    ours = our_answer(document)
    kafkas = {member_id: _tasks(roles) for member_id, roles in document["answer"].items()}
    if document["is_only"]:
        return None if ours == kafkas else "another answer, and Kafka has only one"
    processes = {member["id"]: member["process"] for member in document["members"]}
    places = Counter((processes[member_id], task) for member_id, task in _held(ours))
    if max(places.values(), default=1) > 1:
        return "a process has a task twice"
    before = {member["id"]: _tasks(member) for member in document["members"]}
    for role in ("active", "standby"):
        our_copies, kafkas_copies = (Counter(task for _, task in _held(each, role)) for each in (ours, kafkas))
        if our_copies != kafkas_copies:
            return f"{role}: less of {kafkas_copies - our_copies}, more of {our_copies - kafkas_copies}"
        stay, kafkas_stay = _kept(before, ours, role), _kept(before, kafkas, role)
        if stay < kafkas_stay:
            return f"{role}: {stay} tasks stay where they are, with Kafka {kafkas_stay}"
    for roles in (("active",), ("active", "standby")):
        our_spread, kafkas_spread = _spread(ours, roles), _spread(kafkas, roles)
        if our_spread > kafkas_spread:
            return f"{roles}: members are {our_spread} tasks apart, with Kafka {kafkas_spread}"
    return None


def _held(answer: Answer, *roles: str) -> Iterator[tuple[str, Task]]:
    for member_id, tasks in answer.items():
        for role in roles or ("active", "standby"):
            for task in each_task(getattr(tasks, role)):
                yield member_id, task


def _kept(before: Answer, answer: Answer, role: str) -> int:
    return len(set(_held(before, role)) & set(_held(answer, role)))


def _spread(answer: Answer, roles: tuple[str, ...]) -> int:
    sizes = Counter(member_id for member_id, _ in _held(answer, *roles))
    counts = [sizes[member_id] for member_id in answer]
    return max(counts) - min(counts)


def _member(member: Document) -> AssignorMember:
    offsets = {(name, partition): offset for name, partition, offset in member["offsets"]}
    return AssignorMember(member["id"], member["process"], _tasks(member), offsets)


def _tasks(roles: Document) -> Tasks:
    return Tasks(_task_ids(roles["active"]), _task_ids(roles["standby"]), _task_ids(roles.get("warmup", {})))


def _task_ids(partitions: Mapping[str, list[int]]) -> TaskIds:
    return {name: frozenset(found) for name, found in partitions.items() if found}
