"""The tests of the examples, and of the kits for other languages, pass, run by each language's tool as a user would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.test_container_environments import container, until_ready
from tests.ports import free_ports
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def run(name: str, *command: str, **variables: str) -> tuple[int, str]:
    """Run the tests of an example, or of another folder (with a slash); return the exit status and what was printed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=ROOT / "examples" / name if "/" not in name else ROOT / name,
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
    ("name", "tests"), [("aiokafka_orders", 5), ("confluent_payments", 6), ("faststream_service", 5)]
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


@pytest.mark.parametrize(("name", "tests"), [("spring_boot", 5), ("kits/java", 12)])
def test_java(name: str, tests: int) -> None:
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        pytest.skip("Maven and a JDK are not installed (tests/client/install-tools.sh)")
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    status, output = run(name, maven, "-B", f"-DargLine={quick}", "test", ODRADEK=COMMAND, MAVEN_OPTS=quick)
    if re.search("Non-resolvable|Could not (resolve dependencies|transfer artifact|find artifact)", output):
        pytest.skip(f"what {name} needs cannot be fetched: {output[-500:]}")
    assert status == 0, output
    assert passed(output, r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$") == tests


def test_the_kit_for_go(go: str) -> None:
    status, output = run("kits/go", go, "test", "-count=1", "-v", ".", ODRADEK=COMMAND)
    assert status == 0, output
    assert len(re.findall("^--- PASS", output, re.MULTILINE)) == 7


@pytest.fixture(scope="module")
def node() -> Path:
    """The example for Node in a folder of its own, beside the kit, once what it needs is there."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("node and npm are not installed")
    copy = ROOT / "build" / "node-example"
    for name in ("kits/node", "examples/kafkajs_notices"):
        shutil.copytree(ROOT / name, copy / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    folder = copy / "examples/kafkajs_notices"
    command = [npm, "ci", "--silent", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        pytest.skip(f"the packages of examples/kafkajs_notices cannot be installed: {done.stderr[-500:]}")
    return folder


def test_node_with_vitest_and_jest(node: Path) -> None:
    name = str(node.relative_to(ROOT))
    status, output = run(name, "npm", "test", "--silent", ODRADEK=COMMAND, NO_COLOR="1")
    assert status == 0, output
    assert passed(output, r"Tests +(\d+) passed \(6\)") == 6
    status, output = run(name, "npm", "run", "--silent", "test:jest", ODRADEK=COMMAND, NO_COLOR="1")
    assert status == 0, output
    assert passed(output, r"Tests: +(\d+) passed, 2 total") == 2


def test_the_kit_for_node() -> None:
    command = shutil.which("node")
    if command is None:
        pytest.skip("node is not installed")
    status, output = run("kits/node", command, "--test", "--test-reporter=tap", ODRADEK=COMMAND)
    assert status == 0, output
    assert passed(output, r"^# pass (\d+)$") == 11


CONTAINERS = """\
#!{python}
# Stands in for docker: the container's command runs here, with the environment of the container and nothing else.
import os, sys

published, words = [], iter(sys.argv[1:])
environment = {{"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"]}}
assert next(words) == "run"
for word in words:
    if word == "--env":
        name, _, value = next(words).partition("=")
        environment[name] = value
    elif word == "--publish":
        host, port, inside = next(words).split(":")
        assert (host, port) == ("127.0.0.1", inside)
        published.append(port)
    elif not word.startswith("--"):
        break
assert word == "odradek:test"
with open("{folder}/asked", "a") as asked:
    print(os.getpid(), *published, file=asked)
for descriptor in (1, 2):
    os.dup2(os.open(f"{folder}/{{os.getpid()}}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT), descriptor)
environment["KAFKA_LOG_DIRS"] = f"{folder}/{{os.getpid()}}"
os.execve(sys.executable, [sys.executable, "-m", "odradek", *words], environment)
"""


LISTENING = r'http://0\.0\.0\.0:(\d+)"\], "event": "schema registry listening"'


@pytest.mark.parametrize("kit", ["go", "node", "java"])
def test_a_kit_starts_a_container(kit: str, tmp_path: Path) -> None:
    """By an image: what is docker's part does a program that runs the image's command.

    The schema registry listens at a port that was published.
    """
    tool = shutil.which("mvn" if kit == "java" else kit)
    if tool is None:
        pytest.skip(f"the tool for {kit} is not installed")
    docker = tmp_path / "docker"
    docker.write_text(CONTAINERS.format(python=sys.executable, folder=tmp_path))
    docker.chmod(0o755)
    command = {
        "go": ["test", "-count=1", "-v", "-run", "RecordsComeOut|RecordBySchema|FindsTheBrokerClean", "."],
        "node": [
            "--test",
            "--test-reporter=tap",
            "--test-name-pattern=records come out|by a schema|two brokers",
        ],
        "java": ["-B", "-Dtest=OdradekTestTest#cARecordBySchema*", "test"],
    }[kit]
    status, output = run(f"kits/{kit}", tool, *command, BROKER_IMAGE="odradek:test", CONTAINER_COMMAND=str(docker))
    assert status == 0, output
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    assert len(asked) == (2 if kit == "node" else 1)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid, *_ in asked), "the container still runs")
    registries = [re.findall(LISTENING, (tmp_path / f"{pid}.log").read_text()) for pid, *_ in asked]
    assert sorted(registries) == sorted([[asked[0][-1]], *[[]] * (len(asked) - 1)])


def test_go_with_a_container(go: str, tmp_path: Path) -> None:
    """The image's entry point: the control interface is open to the network, and asks for a token."""
    port, control, registry = free_ports(3)
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}",
        "ODRADEK_CONTROL": f"0.0.0.0:{control}",
        "ODRADEK_CONTROL_TOKEN": "secret",
        "KAFKA_SCHEMA_REGISTRY_LISTENERS": f"http://0.0.0.0:{registry}",
    }
    with container(tmp_path, environment) as (child, ready, log):
        until_ready(child, ready, log)
        address = {"BROKER_CONTROL": f"http://127.0.0.1:{control}", "BROKER_TOKEN": "secret"}
        status, output = run("franz_go", go, "test", "-count=1", "-v", "./...", **address)
        assert status == 0, output + log.read_text()
        assert output.count("--- PASS") == 5
        assert "Traceback" not in log.read_text()
