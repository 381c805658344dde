"""A start imports no more than the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.budgets.measure import TABLE, imported_by_a_start, ours

SPARE = 5
"""So many fewer than the table are let pass; who saves more writes that down, to keep it."""


@pytest.mark.parametrize("name", TABLE["start"])
def test_a_start_imports_what_the_table_says(tmp_path: Path, name: str) -> None:
    row = TABLE["start"][name]
    modules = imported_by_a_start(tmp_path / "data", *row["settings"])
    counts = {"modules": len(modules), "ours": len(ours(modules))}
    assert not {kind: (count, row[kind]) for kind, count in counts.items() if count > row[kind]}, "\n".join(modules)
    fewer = {kind: (count, row[kind]) for kind, count in counts.items() if count < row[kind] - SPARE}
    assert not fewer, "counted, and in the table: write the lower number there"
