"""The page about services with a queue is a test file: it passes as it is printed."""

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

PAGE = "docs/testing-queues.md"


def test_the_page_passes_as_it_is_printed(tmp_path: Path) -> None:
    code = "\n\n".join(blocks(PAGE, "python"))
    (tmp_path / "test_page.py").write_text(code)
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert f"{code.count('def test_')} passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_pages_requests_succeed() -> None:
    with Broker() as broker:
        (code,) = blocks(PAGE)
        run = subprocess.run(
            ["sh", "-e", "-c", code.replace("curl -s", "curl -sS --fail-with-body")],
            env={**os.environ, "CONTROL": broker.control.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert broker.group("shipping").configs == {"share.auto.offset.reset": "earliest"}
