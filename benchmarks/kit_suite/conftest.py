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
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

phases: dict[str, list[float]] = {"setup": [], "call": [], "teardown": []}
"""Seconds of each test's phases."""

broker: dict[str, float] = {}
"""CPU seconds of the broker's process after the first test and after the last, and its memory in MB."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The broker's address, and a topic of the test's own."""
    if BOOTSTRAP is None:
        own = request.getfixturevalue("odradek")
        yield own.bootstrap_servers, request.getfixturevalue("odradek_topic").name
        _look_at(own.pid)
        return
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    topic = f"orders-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    yield BOOTSTRAP, topic
    admin.delete_topics([topic])[topic].result(30)


def _look_at(pid: int) -> None:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    broker.setdefault("cpu_s_first", cpu_s)
    broker["cpu_s_last"] = cpu_s
    broker["rss_mb"] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    phases[report.when or "call"].append(report.duration)


def pytest_sessionfinish() -> None:
    Path(os.environ["KIT_FIGURES"]).write_text(json.dumps({"phases": phases, "broker": broker}))
