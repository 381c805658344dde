"""`python tools/install.py`: how far pip is while `make` installs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.install import Bar

ROOT = Path(__file__).parents[2]


def test_a_bar_of_pip_s_packages_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar("requirements", 4, terminal=True)
    for line in (
        "Collecting attrs==1 (from x)",
        "  Downloading attrs.whl",
        "Requirement already satisfied: click in y",
    ):
        bar.see(line)
    bar.see("  Building wheel for pyspark (pyproject.toml): started")
    bar.end()
    parts = capsys.readouterr().err.split("\r\x1b[2K")
    assert parts[1:] == [
        f"[{'#' * 7}{'.' * 23}] requirements 1/4 attrs",
        f"[{'#' * 15}{'.' * 15}] requirements 2/4 click",
        f"[{'#' * 15}{'.' * 15}] requirements 2/4 building wheel pyspark",
        "",
    ]


def test_a_line_for_each_tenth_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar("requirements", 40, terminal=False)
    for number in range(40):
        bar.see(f"Collecting package{number}==1")
    bar.see("Installing collected packages: package0")
    bar.end()
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "requirements 4/40 package3"
    assert told[-1] == "requirements 40/40 installing collected packages"
    assert len(told) == 11


def test_pip_s_failure_is_told_whole_with_its_exit_status(tmp_path: Path) -> None:
    (tmp_path / "needs.txt").write_text("no-such-package-of-ours==1\n")
    asked = [sys.executable, str(ROOT / "tools/install.py"), "-r", str(tmp_path / "needs.txt"), "--no-index"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "No matching distribution found for no-such-package-of-ours==1" in done.stderr
