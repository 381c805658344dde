"""Where the suite's broker comes from, and how long each part of a test took.

`KIT_BOOTSTRAP` names a broker that runs already; otherwise the plugin's fixtures start one. The figures go to the file
`KIT_FIGURES`, in JSON.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ.get("KIT_BOOTSTRAP")

phases: dict[str, list[float]] = {"setup": [], "call": [], "teardown": []}
"""Seconds of each test's phases."""

cpu_s: list[float] = []
"""Seconds of CPU that the broker's process took for each test itself, without what fixtures do before and after it."""

memory: dict[str, float] = {}
"""Of the broker's process, in MB."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The broker's address, and a topic of the test's own."""
    if BOOTSTRAP is None:
        own = request.getfixturevalue("odradek")
        topic = request.getfixturevalue("odradek_topic").name
        began_s = _cpu_s(own.pid)
        yield own.bootstrap_servers, topic
        cpu_s.append(_cpu_s(own.pid) - began_s)
        memory["rss_mb"] = _rss_mb(own.pid)
        return
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    topic = f"orders-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    yield BOOTSTRAP, topic
    admin.delete_topics([topic])[topic].result(30)


def _cpu_s(pid: int) -> float:
    """The CPU time of all threads of a process so far."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _rss_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    phases[report.when or "call"].append(report.duration)


def pytest_sessionfinish() -> None:
    Path(os.environ["KIT_FIGURES"]).write_text(json.dumps({"phases": phases, "cpu_s": cpu_s, **memory}))
