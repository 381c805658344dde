"""Sets of tasks: partitions by subtopology, and the three roles in which a member may have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from protocol.coordinator_records.streams_group_records import TaskIds, Tasks

Task = tuple[str, int]
"""A subtopology and a partition."""

NO_TASK_IDS: TaskIds = {}
NO_TASKS = Tasks(NO_TASK_IDS, NO_TASK_IDS, NO_TASK_IDS)


def each_task(tasks: TaskIds) -> Iterator[Task]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def task_ids(tasks: Iterable[Task]) -> TaskIds:
    found: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in sorted(found.items())}


def is_none(tasks: Tasks) -> bool:
    return not any(tasks)


def overlap(tasks: Tasks, others: Tasks) -> bool:
    """Whether any task is in both, in the same role."""
    return any(
        partitions & theirs.get(subtopology, frozenset())
        for ours, theirs in zip(tasks, others, strict=True)
        for subtopology, partitions in ours.items()
    )


def is_part_of(tasks: Tasks, others: Tasks) -> bool:
    """Whether all tasks are among the others, in the same role."""
    return all(
        partitions <= theirs.get(subtopology, frozenset())
        for ours, theirs in zip(tasks, others, strict=True)
        for subtopology, partitions in ours.items()
    )


class Change(NamedTuple):
    """From one set of tasks to another."""

    kept: TaskIds
    given_up: TaskIds
    missing: TaskIds


def change(present: TaskIds, wanted: TaskIds) -> Change:
    now, then = set(each_task(present)), set(each_task(wanted))
    return Change(task_ids(now & then), task_ids(now - then), task_ids(then - now))
