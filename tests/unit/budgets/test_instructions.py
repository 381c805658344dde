"""Instructions of the processor for each request, counted by valgrind: what a call costs, calls do not show."""

from __future__ import annotations

import platform
import shutil
import sys

import pytest

from tests.unit.budgets.measure import TABLE, instructions

SPARE = 0.03
"""Where things lie in memory, and in which order sets are walked, moves the count by so much."""
COUNTED_WITH = "Debian's Python 3.11 on x86-64"


def why_not() -> str | None:
    if shutil.which("valgrind") is None:
        return "needs valgrind"
    if sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64" or not sys.base_prefix.startswith("/usr"):
        return f"the table was counted with {COUNTED_WITH}"
    return None


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_a_request_takes_the_instructions_that_the_table_says() -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    table = {name: row["instructions"] for name, row in TABLE["requests"].items()}
    off = {
        name: (count, table.get(name))
        for name, count in instructions().items()
        if name not in table or abs(count / table[name] - 1) > SPARE
    }
    assert not off, "counted, and in the table"
