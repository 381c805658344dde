"""The examples of docs/testing-with-odradek.md run as they are printed, as a new user's test suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("own_cluster")

PAGE = Path(__file__).parents[2] / "docs" / "testing-with-odradek.md"
IMPORTS = "import threading\n\nimport pytest\nfrom confluent_kafka import Producer\nfrom odradek import Broker\n\n"
"""What the page leaves to the reader."""


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_pages_tests_pass_with_the_pages_configuration(tmp_path: Path) -> None:
    (settings,) = examples("toml")
    (tmp_path / "pyproject.toml").write_text(settings)
    code = examples("python")
    tests = [example for example in code if "def test_" in example and "...  #" not in example]
    assert len(tests) >= 4
    (tmp_path / "test_page.py").write_text(IMPORTS + "\n\n".join(tests))
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    number = sum(example.count("def test_") for example in tests)
    assert f"{number} passed" in run.stdout, run.stdout + run.stderr


def test_the_pages_broker_shows_its_address(tmp_path: Path) -> None:
    (program,) = [example for example in examples("python") if example.startswith("from odradek import Broker\n\nwith")]
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", run.stdout), run.stderr
