"""The examples of docs/registry.md run as they are printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Broker
from tests.pages import blocks

pytestmark = pytest.mark.usefixtures("own_cluster")

PAGE = "docs/registry.md"
IMPORTS = """\
import json

import pytest
from confluent_kafka import Producer
from odradek import ControlError

"""
"""What the page leaves to the reader."""


def test_the_tests_of_the_registrys_page_pass(tmp_path: Path) -> None:
    code = blocks(PAGE, "python")
    (tmp_path / "test_page.py").write_text(IMPORTS + "\n\n".join(code))
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False)
    number = sum(example.count("def test_") for example in code)
    assert f"{number} passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_requests_of_the_registrys_page_succeed() -> None:
    (example,) = [code for code in blocks(PAGE) if "$CONTROL" in code]
    script = example.replace("curl -s", "curl -sS --fail-with-body")
    with Broker() as broker:
        variables = {**os.environ, "CONTROL": broker.control.url}
        run = subprocess.run(
            ["sh", "-e", "-c", script], env=variables, capture_output=True, text=True, timeout=60, check=False
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert '"json": {"id": 7}' in run.stdout
