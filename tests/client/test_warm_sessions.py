"""Warm starts of the pytest plugin: the template ends with its session, with those of xdist, and if that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.client.test_odradek_ends import ends

pytest_plugins = ["pytester"]
pytestmark = [
    pytest.mark.usefixtures("own_cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="nodes are forked on Linux alone"),
]


FRESH = """
import os
import pytest
from collections import Counter
from pathlib import Path
from odradek.warm import WARM

@pytest.mark.parametrize("number", range(6))
def test_fresh(odradek_fresh_broker, number):
    assert odradek_fresh_broker.topic("t").partitions == 1
    template = WARM.template
    pids = [odradek_fresh_broker.pid, *([template.pid] if template else [])]
    seen = [odradek_fresh_broker.warm, os.getpid(), *pids]
    Path(os.environ["SEEN"], f"{number}").write_text(" ".join(map(str, seen)))
"""


def seen(folder: Path) -> list[list[str]]:
    return [path.read_text().split() for path in folder.iterdir()]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_template_ends_with_the_session(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_fresh.py").write_text(FRESH)
    (tmp_path / "seen").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "SEEN": str(tmp_path / "seen")},
        cwd=tmp_path,
    )
    assert "6 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "odradek: each broker" not in ran.stdout
    found = seen(tmp_path / "seen")
    workers_seen = {worker for _, worker, *_ in found}
    assert Counter(warm for warm, *_ in found) == {"False": len(workers_seen), "True": 6 - len(workers_seen)}
    templates = {template for warm, _, _, *rest in found for template in rest}
    assert len(templates) == len(workers_seen)
    assert all(ends(int(pid)) for _, _, *pids in found for pid in pids)


def test_a_session_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "test_fresh.py").write_text(
        FRESH
        + textwrap.dedent("""
        def test_killed(odradek_fresh_broker):
            os.kill(os.getpid(), 9)
    """)
    )
    variables = {**os.environ, "SEEN": str(tmp_path / "seen"), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, check=False, capture_output=True, timeout=300, env=variables, cwd=tmp_path)
    assert ran.returncode == -signal.SIGKILL
    assert all(ends(int(pid)) for _, _, *pids in seen(tmp_path / "seen") for pid in pids)
    assert list((tmp_path / "tmp").glob("odradek-*")) == []


# -- plain all the same
