"""A request costs no more than the table says, and not much less: who makes it cheaper writes that down, to keep it.

A file more is one more that a reader must open to understand the request; a call more is time; a block that stays after
each request is a leak.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.unit.budgets.measure import KEPT_ROUNDS, TABLE, costs
from tests.unit.budgets.meters import Walk
from tests.unit.budgets.scenes import SCENES, Scene

SPARE_CALLS, SPARE_SHARE = 3, 0.05
"""So much less than the table is let pass, in calls or as a share of them."""
TABLES_PYTHON = (3, 11)
"""Later ones make fewer calls of the same code: a comprehension is none there."""


def complaint(name: str, walk: Walk) -> str | None:
    files, calls = TABLE["requests"][name]["files"], TABLE["requests"][name]["calls"]
    now = f"{name}: {len(walk.files)} files and {walk.calls.total()} calls, in the table {files} and {calls}"
    if len(walk.files) > files or walk.calls.total() > calls:
        most = "\n".join(f"  {count:5} {function}" for function, count in walk.calls.most_common())
        return f"{now}. They are:\n{most}"
    if sys.version_info[:2] == TABLES_PYTHON and walk.calls.total() < calls - max(SPARE_CALLS, SPARE_SHARE * calls):
        return f"{now}: write the lower number there"
    return None


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_a_request_costs_what_the_table_says(scene: Scene) -> None:
    found = await costs(scene)
    assert [text for name, walk in found.walks.items() if (text := complaint(name, walk))] == []
    assert found.kept < KEPT_ROUNDS / 2, "each round leaves something in memory"
    assert found.circles == {}, "what ends is freed by reference counts: `broker.process.Survivors` relies on it"


@pytest.mark.parametrize(
    ("more_files", "more_calls", "text"), [(0, 1, "They are"), (1, 0, "They are"), (0, -30, "lower")]
)
def test_a_longer_walk_and_a_much_shorter_one_are_seen(more_files: int, more_calls: int, text: str) -> None:
    name = "Produce of one record"
    files, calls = TABLE["requests"][name]["files"], TABLE["requests"][name]["calls"]
    assert complaint(name, Walk(["a.py"] * files, Counter(f=calls))) is None
    found = complaint(name, Walk(["a.py"] * (files + more_files), Counter(f=calls + more_calls)))
    assert text in str(found) or (more_calls < 0 and sys.version_info[:2] != TABLES_PYTHON)
