"""The assignor `sticky`: every task once, standbys elsewhere, balanced, nothing moves without a reason, as in Kafka.

`python -m tools.recorders.streams_assignor_answers` asks Kafka's class anew (assignor_answers.jsonl).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.streams.assignor import AssignorMember, assign
from coordinator.group.streams.configured import ConfiguredSubtopology
from coordinator.group.streams.tasks import NO_TASKS, Task, each_task, task_ids
from protocol.coordinator_records.streams_group_records import Tasks
from tests.unit.coordinator.group.streams.assignor_documents import Document, differs

DOCUMENTS = [json.loads(line) for line in (Path(__file__).parent / "assignor_answers.jsonl").read_text().splitlines()]
Assigned = Mapping[str, Tasks]


def sub(count: int, *, stateful: bool = False) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(count, ("a",), stateful)


def members(processes: Sequence[int], before: Assigned | None = None) -> list[AssignorMember]:
    """Processes with so many members: `p0m0`, `p0m1`, ..., with what they had before."""
    had = before or {}
    names = [(f"p{p}", f"p{p}m{m}") for p, count in enumerate(processes) for m in range(count)]
    return [AssignorMember(member, process, had.get(member, NO_TASKS)) for process, member in names]


def owners(assigned: Assigned) -> dict[Task, str]:
    return {task: member for member, tasks in assigned.items() for task in each_task(tasks.active)}


def sizes(assigned: Assigned) -> list[int]:
    return sorted(sum(map(len, tasks.active.values())) for tasks in assigned.values())


SUBTOPOLOGIES = st.dictionaries(
    st.sampled_from("0123"),
    st.tuples(st.integers(1, 9), st.booleans()).map(lambda each: sub(each[0], stateful=each[1])),
)
PROCESSES = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(SUBTOPOLOGIES, PROCESSES, PROCESSES, st.integers(0, 3))
def test_every_task_is_active_once_and_has_its_standbys_on_other_processes(
    subtopologies: Mapping[str, ConfiguredSubtopology], former: list[int], processes: list[int], replicas: int
) -> None:
    before = assign(members(former), subtopologies, replicas)
    found = assign(members(processes, before), subtopologies, replicas)
    active = Counter(task for tasks in found.values() for task in each_task(tasks.active))
    tasks = {(name, index) for name, each in subtopologies.items() for index in range(each.task_count)}
    assert active == dict.fromkeys(tasks, 1)
    places: dict[Task, list[str]] = {}
    for member, assigned in found.items():
        for task in (*each_task(assigned.active), *each_task(assigned.standby)):
            places.setdefault(task, []).append(member[:2])
        assert not assigned.warmup
    for task, where in places.items():
        standbys = min(replicas, len(processes) - 1) if subtopologies[task[0]].is_stateful else 0
        assert len(where) == len(set(where)) == 1 + standbys


@given(SUBTOPOLOGIES, st.integers(1, 8), st.integers(1, 8))
def test_members_of_processes_of_one_size_have_the_same_number_of_tasks_or_one_more(
    subtopologies: Mapping[str, ConfiguredSubtopology], former: int, now: int
) -> None:
    before = assign(members([1] * former), subtopologies, 0)
    found = sizes(assign(members([1] * now, before), subtopologies, 0))
    assert found[-1] - found[0] <= 1


@given(SUBTOPOLOGIES, PROCESSES)
def test_active_tasks_stay_where_they_are_while_nothing_changes(
    subtopologies: Mapping[str, ConfiguredSubtopology], processes: list[int]
) -> None:
    settled = assign(members(processes), subtopologies, 0)
    for _ in range(3):
        settled = assign(members(processes, settled), subtopologies, 0)
    assert assign(members(processes, settled), subtopologies, 0) == settled


@given(SUBTOPOLOGIES, st.integers(1, 6))
def test_tasks_move_only_to_a_newcomer_and_only_those_of_a_leaver_move(
    subtopologies: Mapping[str, ConfiguredSubtopology], count: int
) -> None:
    before = assign(members([1] * count), subtopologies, 0)
    more = assign(members([1] * (count + 1), before), subtopologies, 0)
    newcomer = f"p{count}m0"
    assert {member for task, member in owners(more).items() if owners(before)[task] != member} <= {newcomer}
    after = assign(members([1] * count, more), subtopologies, 0)
    assert all(owners(after)[task] == member for task, member in owners(more).items() if member != newcomer)


def test_processes_get_tasks_by_how_many_members_they_have() -> None:
    found = assign(members([2, 1]), {"0": sub(6)}, 0)
    assert sum(len(found[member].active["0"]) for member in ("p0m0", "p0m1")) == 4


def test_a_standby_becomes_active_when_the_owner_is_gone() -> None:
    before = assign(members([1, 1, 1]), {"0": sub(3, stateful=True)}, 1)
    (standby,) = [name for name, tasks in before.items() if ("0", 0) in each_task(tasks.standby)]
    owner = owners(before)["0", 0]
    left = [one for one in members([1, 1, 1], before) if one.member_id != owner]
    assert owners(assign(left, {"0": sub(3, stateful=True)}, 1))["0", 0] == standby


def test_who_has_more_of_the_state_on_its_disk_gets_the_task() -> None:
    offsets: Sequence[Mapping[Task, int]] = ({("0", 0): 5}, {("0", 0): 9}, {})
    known = [AssignorMember(f"m{n}", f"p{n}", NO_TASKS, each) for n, each in enumerate(offsets)]
    assert owners(assign(known, {"0": sub(1, stateful=True)}, 0)) == {("0", 0): "m1"}
    standby = known[2]._replace(tasks=NO_TASKS._replace(standby=task_ids([("0", 0)])))
    assert owners(assign([*known[:2], standby], {"0": sub(1, stateful=True)}, 0)) == {("0", 0): "m2"}


def test_warm_ups_of_an_earlier_target_do_not_count() -> None:
    warm = NO_TASKS._replace(warmup=task_ids([("0", 0)]))
    known = [AssignorMember("m0", "p0", NO_TASKS), AssignorMember("m1", "p1", warm)]
    assert owners(assign(known, {"0": sub(1, stateful=True)}, 0)) == {("0", 0): "m0"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{len(each['members'])}-members")
def test_the_answer_is_as_good_as_kafkas(document: Document) -> None:
    assert differs(document) is None
