"""Every example of the README runs as it is printed, but for the port."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client import stock
from tests.client.java_tools import JARS, JVM_OPTIONS
from tests.pages import ROOT, block, blocks

README = "README.md"
PRINTED_ADDRESS = "127.0.0.1:9092"


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


PYTHON_EXAMPLES = [code for code in blocks(README, "python") if PRINTED_ADDRESS in code]


def test_there_is_an_example_for_each_client() -> None:
    assert len(PYTHON_EXAMPLES) == 3
    assert len(blocks(README, "java")) == 1
    assert block(README, "kcat -b")


@pytest.mark.parametrize("code", PYTHON_EXAMPLES, ids=["aiokafka", "confluent-kafka", "kafka-python"])
def test_python_example(code: str, bootstrap: str, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(code.replace(PRINTED_ADDRESS, bootstrap))
    assert "hello" in run([sys.executable, str(program)], tmp_path)


@pytest.mark.usefixtures("own_cluster")
def test_the_first_test_passes(tmp_path: Path) -> None:
    code = block(README, "def test_", "python")
    (tmp_path / "test_first.py").write_text(code)
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    assert "1 passed" in run(command, tmp_path)


@pytest.mark.usefixtures("java_tool")
def test_java_example(bootstrap: str, tmp_path: Path) -> None:
    program = tmp_path / "Hello.java"
    program.write_text(block(README, "class Hello", "java").replace(PRINTED_ADDRESS, bootstrap))
    assert "hello" in run(["java", *JVM_OPTIONS, "-cp", f"{JARS}/*", str(program)], tmp_path)


def test_command_line_example(bootstrap: str, tmp_path: Path) -> None:
    commands = block(README, "odradek topics").replace(".venv/bin/odradek", f"{Path(sys.executable).parent}/odradek")
    environment = {**os.environ, "ODRADEK_BOOTSTRAP": bootstrap}
    done = subprocess.run(
        ["sh", "-ec", commands], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "hello"


def test_kcat_example(bootstrap: str, tmp_path: Path) -> None:
    if reason := stock.missing("kcat"):
        pytest.skip(reason)
    text = (ROOT / README).read_text()
    (tmp_path / "README.md").write_text(text)
    commands = block(README, "kcat")
    printed = [
        run(["sh", "-c", command.replace(PRINTED_ADDRESS, bootstrap)], tmp_path) for command in commands.splitlines()
    ]
    lines = [line for line in text.split("\n") if line]
    assert printed[-1].split("\n")[-1 - len(lines) : -1] == lines
