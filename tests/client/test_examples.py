"""The examples' own tests pass, each run by its language's tool in its folder, as a user would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.test_container_environments import container, free_ports, until_ready

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
    found = re.search(pattern, output, re.MULTILINE)
    assert found, output
    return int(found[1])


@pytest.mark.parametrize(
    ("name", "tests"), [("aiokafka_orders", 5), ("confluent_payments", 4), ("faststream_service", 5)]
)
def test_python(name: str, tests: int) -> None:
    status, output = run(name, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 0, output
    assert passed(output, r"(\d+) passed") == tests


COMMAND = f"{sys.executable} -m odradek"
"""How the examples that are not in Python start a broker."""


@pytest.fixture(scope="module")
def go() -> str:
    """Go's command, once the example's modules are there."""
    command = shutil.which("go")
    if command is None:
        pytest.skip("go is not installed")
    status, output = run("franz_go", command, "mod", "download")
    if status:
        pytest.skip(f"the modules of examples/franz_go cannot be fetched, or need another Go: {output[-500:]}")
    return command


def test_go(go: str) -> None:
    status, output = run("franz_go", go, "test", "-count=1", "-v", "./...", ODRADEK=COMMAND)
    assert status == 0, output
    assert output.count("--- PASS") == 5


def test_spring_boot() -> None:
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        pytest.skip("Maven and a JDK are not installed (tests/client/install-tools.sh)")
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    status, output = run("spring_boot", maven, "-B", f"-DargLine={quick}", "test", ODRADEK=COMMAND, MAVEN_OPTS=quick)
    if re.search("Non-resolvable|Could not (resolve dependencies|transfer artifact|find artifact)", output):
        pytest.skip(f"what examples/spring_boot needs cannot be fetched: {output[-500:]}")
    assert status == 0, output
    assert passed(output, r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$") == 5


def test_go_with_a_container(go: str, tmp_path: Path) -> None:
    """The image's entry point: the control interface is open to the network, and asks for a token."""
    port, control = free_ports(2)
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "ODRADEK_CONTROL": f"0.0.0.0:{control}",
        "ODRADEK_CONTROL_TOKEN": "secret",
    }
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        address = {"BROKER_CONTROL": f"http://127.0.0.1:{control}", "BROKER_TOKEN": "secret"}
        status, output = run("franz_go", go, "test", "-count=1", "-v", "./...", **address)
        assert status == 0, output + log.read_text()
        assert output.count("--- PASS") == 5
        assert "Traceback" not in log.read_text()
