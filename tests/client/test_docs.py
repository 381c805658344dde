"""The examples of docs/testing-with-odradek.md run as they are printed, as a new user's test suite and from a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.pages import blocks

pytestmark = pytest.mark.usefixtures("own_cluster")

PAGE = "docs/testing-with-odradek.md"


def programs() -> list[str]:
    """The examples in Python that are no tests, and no fixtures."""
    return [code for code in blocks(PAGE, "python") if "\nwith " in code and "def test_" not in code]


def shell_examples() -> list[str]:
    return [code for code in blocks(PAGE) if "curl " in code]


def test_the_pages_tests_pass_with_the_pages_configuration(tmp_path: Path) -> None:
    (settings,) = blocks(PAGE, "toml")
    (tmp_path / "pyproject.toml").write_text(settings)
    code = blocks(PAGE, "python")
    tests = [example for example in code if "def test_" in example]
    (fixtures,) = [example for example in code if "factories" in example]
    (imports,) = [example for example in code if example.startswith("import threading")]
    assert len(tests) + len(programs()) + 2 == len(code)
    (tmp_path / "conftest.py").write_text(fixtures)
    (tmp_path / "test_page.py").write_text("\n\n".join([imports, *tests, "def test_fixtures(small):\n    pass\n"]))
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False)
    number = sum(example.count("def test_") for example in tests) + 1
    assert f"{number} passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("code", programs(), ids=range(len(programs())))
def test_the_pages_brokers_show_their_address(code: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(code)
    run = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", run.stdout), run.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_pages_requests_succeed(tmp_path: Path) -> None:
    """In their order: the first ones make the topic that later ones name."""
    with Broker() as broker:
        broker.topic("orders", partitions=3).produce("order")
        broker.group("billing").reset_offsets("earliest", topic="orders")
        fault = broker.fault(api="Metadata", observe=True)
        for _ in range(3):
            AdminClient(broker.client_config("confluent")).list_topics(timeout=60)
        variables = {**os.environ, "CONTROL": broker.control.url, "ID": fault.id}
        assert len(shell_examples()) >= 9
        for code in shell_examples():
            script = code.replace("curl -s", "curl -sS --fail-with-body").replace("/tmp/", f"{tmp_path}/")
            run = subprocess.run(
                ["sh", "-e", "-c", script], env=variables, capture_output=True, text=True, timeout=60, check=False
            )
            assert run.returncode == 0, code + run.stdout + run.stderr
