"""`odradek-pipeline replay` through kill -9 of its Python workers, of driver and JVM, and of the broker: each row once.

`--torture` plays ten rounds with two of each in any order.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek import Broker
from odradek_pipeline.replay import ledger
from odradek_pipeline.replay.writer import TaskPlan, TransactionLimits
from tests.brokers import sound_broker
from tests.pipeline.replays import SECONDS, by_key, committed, expected

DEEDS = ("worker", "broker", "driver")
TASKS = 4
FAST_JVM = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
WORKER_LOST = "Python worker exited unexpectedly"


class Job:
    """The command as a process, started again whenever its driver was killed; its output is kept in one file."""

    def __init__(self, bootstrap: str, source: Path, topic: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "odradek_pipeline", "replay"]
        self._command += ["--bootstrap", bootstrap, "--source", str(source), "--format", "json"]
        self._command += ["--schema", "k STRING, n BIGINT, v STRING", "--key-column", "k", "--value", "v"]
        self._command += ["--order-by", "n", "--topic", topic, "--partitions", "3", "--job", topic]
        self._command += ["--tasks", str(TASKS), "--transaction-rows", "20"]
        self._command += ["--master", "local[2,4]", "--conf", "spark.driver.memory=1g", "--conf", FAST_JVM]
        self._plan = TaskPlan(topic, topic, {"bootstrap.servers": bootstrap}, {}, TransactionLimits())
        self._log = log
        self._seen: set[int] = set()
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._log.parent
            )

    def wait_for_rows(self, rows: int) -> int:
        """How many are committed, once there are so many; few more, since the workers wait while they are counted."""
        deadline = time.monotonic() + 3 * SECONDS
        while (found := self._rows_of_held_workers()) < rows:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
        return found

    def rows(self) -> int:
        return ledger.look(self._plan).rows

    def kill_workers(self) -> None:
        """All that there are, once there are any: the rows seen last may be those of a killed driver's workers."""
        deadline = time.monotonic() + 3 * SECONDS
        while not (workers := self._workers()):
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        kill(workers)

    def kill_driver(self) -> None:
        """Driver and JVM at once; the workers are left to find out."""
        kill([pid for pid in (self._process.pid, *self._descendants()) if "pyspark.daemon" not in command_of(pid)])
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait(3 * SECONDS)

    def end(self) -> None:
        self._descendants()
        kill([self._process.pid] if self._process.poll() is None else [])
        self._process.wait()
        kill([pid for pid in self._seen if "pyspark" in command_of(pid) or "java" in command_of(pid)])

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _rows_of_held_workers(self) -> int:
        held = self._workers()
        send(signal.SIGSTOP, held)
        try:
            return self.rows()
        finally:
            send(signal.SIGCONT, held)

    def _workers(self) -> list[int]:
        daemons = [pid for pid in self._descendants() if "pyspark.daemon" in command_of(pid)]
        return [pid for pid in daemons if parent_of(pid) in daemons]

    def _descendants(self) -> list[int]:
        parents = {pid: parent_of(pid) for pid in (int(one.name) for one in Path("/proc").glob("[0-9]*"))}
        family = {self._process.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        family.remove(self._process.pid)
        self._seen |= family
        return sorted(family)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pids: list[int]) -> None:
    send(signal.SIGKILL, pids)


def send(what: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def low_port() -> int:
    """A free port below those that the system gives to clients.

    Of theirs, a client that keeps trying it while no broker listens there may connect to itself, and hold it.
    """
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with sound_broker({"listeners": f"PLAINTEXT://127.0.0.1:{low_port()}"}) as broker:
        yield broker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "deeds" in metafunc.fixturenames:
        rounds = [list(DEEDS)]
        if metafunc.config.getoption("--torture"):
            rounds = [random.Random(seed).sample(DEEDS * 2, len(DEEDS) * 2) for seed in range(10)]
        metafunc.parametrize("deeds", rounds, ids="-".join)


@pytest.mark.timeout(900)
def test_each_row_once_through_kills(own_broker: Broker, topic: str, tmp_path: Path, deeds: list[str]) -> None:
    broker, count, chance = own_broker, 12_000 * len(deeds), random.Random("-".join(deeds))
    rows = [{"k": f"key-{n % 31}", "n": n, "v": f"value {n}"} for n in range(count)]
    whole = expected(rows)
    chance.shuffle(rows)
    source = tmp_path / "in"
    source.mkdir()
    for index in range(4):
        (source / f"{index}.json").write_text("".join(json.dumps(row) + "\n" for row in rows[index::4]))
    job = Job(broker.bootstrap_servers, source, topic, tmp_path / "log")
    try:
        for index, deed in enumerate(deeds):
            share = 0.7 * (index + chance.random()) / len(deeds)
            reached = job.wait_for_rows(max(int(count * share), job.rows() + 1))
            assert reached < count, f"too late for {deed}"
            harm(job, broker, deed)
        assert job.wait() == 0, job.log()
    finally:
        job.end()
    assert by_key(committed(broker.bootstrap_servers, topic)) == whole
    assert WORKER_LOST in job.log()


def harm(job: Job, broker: Broker, deed: str) -> None:
    match deed:
        case "worker":
            job.kill_workers()
        case "broker":
            broker.kill()
            broker.restart()
        case "driver":
            job.kill_driver()
            job.start()
