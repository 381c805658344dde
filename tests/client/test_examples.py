"""The examples' own tests pass, each run by its language's tool in its folder, as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def run(name: str, *command: str, **variables: str) -> tuple[int, str]:
    """Run the tests of an example, and return the exit status and what was printed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=ROOT / "examples" / name,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    return done.returncode, done.stdout


def passed(output: str, pattern: str) -> int:
    """How many tests passed: the first group of `pattern`."""
    found = re.search(pattern, output)
    assert found, output
    return int(found[1])


@pytest.mark.parametrize(
    ("name", "tests"), [("aiokafka_orders", 5), ("confluent_payments", 4), ("faststream_service", 5)]
)
def test_python(name: str, tests: int) -> None:
    status, output = run(name, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 0, output
    assert passed(output, r"(\d+) passed") == tests
