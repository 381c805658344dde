"""Where the suite's broker comes from, and how long each part of a test took.

`KIT_BOOTSTRAP` names a broker that runs already, as the process `KIT_PID`; otherwise the plugin starts one, with
`KIT_FRESH` for each test. `KIT_KFAKE` is the program of `benchmarks/kfake`. The figures go to the file `KIT_FIGURES`.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ.get("KIT_BOOTSTRAP")

phases: dict[str, list[float]] = {"setup": [], "call": [], "teardown": [], "broker": []}
"""Seconds of each test's phases, and of the broker's CPU while the test itself ran."""

memory: dict[str, float] = {}
"""Of the broker's process, in MB, after the last test."""

PID: pytest.StashKey[int] = pytest.StashKey()
"""The broker's process, in a test's stash."""


@pytest.fixture(scope="session")
def kfake() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([os.environ["KIT_KFAKE"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kfake:
        yield kfake
        kfake.communicate()


def of_kfake(kfake: subprocess.Popen[str], topic: str) -> str:
    """The address of a new cluster with this topic; without one, the last cluster is closed."""
    assert kfake.stdin is not None and kfake.stdout is not None
    kfake.stdin.write(f"{topic}\n")
    kfake.stdin.flush()
    return kfake.stdout.readline().strip()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The broker's address, and a topic of the test's own."""
    if "KIT_KFAKE" in os.environ:
        process = request.getfixturevalue("kfake")
        request.node.stash[PID] = process.pid
        yield of_kfake(process, "orders"), "orders"
        of_kfake(process, "")
        return
    if "KIT_FRESH" in os.environ:
        fresh = request.getfixturevalue("odradek_fresh_broker")
        request.node.stash[PID] = fresh.pid
        yield fresh.bootstrap_servers, fresh.topic("orders").name
        return
    if BOOTSTRAP is None:
        own = request.getfixturevalue("odradek")
        request.node.stash[PID] = own.pid
        yield own.bootstrap_servers, request.getfixturevalue("odradek_topic").name
        return
    request.node.stash[PID] = int(os.environ["KIT_PID"])
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    topic = f"orders-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    yield BOOTSTRAP, topic
    admin.delete_topics([topic])[topic].result(30)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Look at the broker before and after the test itself."""
    pid = item.stash[PID]
    before = _cpu_s(pid)
    result = yield
    phases["broker"].append(_cpu_s(pid) - before)
    memory["mb"] = _pss_mb(pid)
    return result


def _cpu_s(pid: int) -> float:
    """What all threads of a process have used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    phases[report.when or "call"].append(report.duration)


def pytest_sessionfinish() -> None:
    Path(os.environ["KIT_FIGURES"]).write_text(json.dumps({"phases": phases, "memory": memory}))
