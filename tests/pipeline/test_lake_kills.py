"""kill -9 of `lake`'s driver, its JVM, an executor and the broker: every committed record is in the table once."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odradek import Broker
from tests.pipeline.conftest import SHORT_LIVED
from tests.pipeline.lakes import committed, create_topic, produce, transact

deltalake = pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
BATCH = 60
DEADLINE_SECONDS = 400


class Driver:
    """`odradek-pipeline lake --available-now` in a process group of its own: Python, and the JVMs it starts."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True, cwd=log.parent
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        assert self._process.wait(DEADLINE_SECONDS) == 0, self._log.read_text()[-5000:]

    def jvms(self, main_class: str) -> list[int]:
        """The process ids of the JVMs of this driver's session whose command line has `main_class` (Linux)."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
                command = (folder / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if session == self._process.pid and main_class in command:
                found.append(int(folder.name))
        return found

    def metrics(self) -> str:
        """What Prometheus would be told."""
        told = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        port = next(line["port"] for line in reversed(told) if line["event"] == "metrics")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return str(answer.read(), "utf-8")

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        """The driver and every JVM of its group at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_jvm(self, main_class: str) -> None:
        for pid in self.jvms(main_class)[:1]:
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        try:
            self.kill()
        except ProcessLookupError:
            self._process.wait()


class Site:
    """A broker that may be killed, a topic with transactions in it, and the lake's table."""

    def __init__(self, broker: Broker, topic: str, folder: Path, jars: str, optimize_every: int = 0) -> None:
        self.broker = broker
        self.topic = topic
        self.table = folder / "lake" / topic
        self._folder = folder
        self._jars = jars
        self._optimize_every = optimize_every
        self._values = itertools.count()
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)

    def fill(self, transactions: int) -> None:
        """Every third transaction is aborted; values are distinct."""
        rounds = [(self._some(20), number % 3 != 0) for number in range(transactions)]
        transact(self.broker.bootstrap_servers, self.topic, f"{self.topic}-producer", rounds)

    def _some(self, count: int) -> list[bytes]:
        return [b"%d" % next(self._values) for _ in range(count)]

    def start(self, *options: str, master: str = "local[2]") -> Driver:
        """To the topic's end, unless the options name topics."""
        command = [sys.executable, "-m", "odradek_pipeline", "lake", "--bootstrap", self.broker.bootstrap_servers]
        command += ["--lake", str(self._folder / "lake"), "--master", master, "--max-offsets", str(BATCH)]
        command += ["--attempts", "20", "--packages", "", "--optimize-every", str(self._optimize_every)]
        if "--topic" not in options and "--pattern" not in options:
            command += ["--topic", self.topic, "--available-now"]
        command += options
        for key, value in (SHORT_LIVED | {"spark.jars": self._jars}).items():
            command += ["--conf", f"{key}={value}"]
        return Driver(command, self._folder / "driver.log")

    def wait_for(self, topic: str) -> None:
        """Until a running driver has written all of a topic."""
        wanted = len(committed(self.broker.bootstrap_servers, topic, PARTITIONS))
        table = str(self.table.with_name(topic))
        until(lambda: deltalake.DeltaTable.is_deltatable(table) and deltalake.DeltaTable(table).count() >= wanted)

    def commits(self) -> int:
        return len(list((self.table / "_delta_log").glob("*.json")))

    def wait_for_commits(self, driver: Driver, more: int) -> None:
        """Until the table has so many commits more, or the driver is through."""
        wanted = self.commits() + more
        until(lambda: self.commits() >= wanted or not driver.running)

    def check(self, whole: bool = True) -> None:
        """Nothing is in the table twice, nothing that was aborted; if it is to be whole, nothing is missing."""
        read = deltalake.DeltaTable(str(self.table)).to_pyarrow_table(columns=["partition", "offset", "value"])
        found = sorted((row["partition"], row["offset"], row["value"]) for row in read.to_pylist())
        expected = committed(self.broker.bootstrap_servers, self.topic, PARTITIONS)
        assert len(set(found)) == len(found)
        assert set(found) <= set(expected)
        assert not whole or found == expected


def _lags(driver: Driver) -> set[float]:
    lines = driver.metrics().splitlines()
    return {float(line.rsplit(maxsplit=1)[1]) for line in lines if line.startswith("odradek_lake_lag_offsets{")}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for too long"
        time.sleep(0.02)


Kill = Callable[[Site, Driver], None]


def _broker(site: Site, driver: Driver) -> None:
    site.broker.kill()
    site.broker.start()


KILLS: dict[str, Kill] = {
    "driver and JVM": lambda site, driver: driver.kill(),
    "JVM": lambda site, driver: driver.kill_jvm("SparkSubmit"),
    "broker": _broker,
    "executor": lambda site, driver: driver.kill_jvm("CoarseGrainedExecutorBackend"),
}
ENDS = ("driver and JVM", "JVM")
"""What the job does not survive; it goes on at its next start."""


def jars_of(spark: SparkSession) -> str:
    """Those that the tests' own session was given: found already."""
    return spark.sparkContext.getConf().get("spark.jars", "")


def torment(site: Site, kills: list[str], chance: random.Random, known: Mapping[str, Kill] = KILLS) -> None:
    for kind in kills:
        site.fill(12)
        master = "local-cluster[1,2,1024]" if kind == "executor" else "local[2]"
        driver = site.start("--topic", site.topic, "--available-now", master=master)
        try:
            site.wait_for_commits(driver, chance.randint(1, 3))
            time.sleep(chance.uniform(0, 0.5))
            known[kind](site, driver)
            if kind not in ENDS:
                driver.wait()
        finally:
            driver.close()
        site.check(whole=kind not in ENDS)
    site.fill(3)
    last = site.start()
    try:
        last.wait()
    finally:
        last.close()


@pytest.mark.torture
@pytest.mark.timeout(600)  # two cold JVMs beside the tests' own, on a machine that may be busy
def test_driver_and_broker_killed_in_the_middle(
    spark: SparkSession, own_broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The driver goes between batches, the broker under the next one, and Spark reads what a second reader reads.

    The second driver runs on and on, finds a topic that appears meanwhile, serves metrics, and ends on SIGTERM.
    """
    site = Site(own_broker, topic, tmp_path, jars_of(spark))
    site.fill(12)
    driver = site.start()
    try:
        site.wait_for_commits(driver, 2)
        driver.kill()
        driver = site.start("--pattern", f"{topic}.*", "--interval=0.1", "--discover-interval=1", "--metrics-port=0")
        site.wait_for_commits(driver, 1)
        _broker(site, driver)
        create_topic(own_broker.bootstrap_servers, f"{topic}.later", PARTITIONS)
        produce(own_broker.bootstrap_servers, f"{topic}.later", [b"x"])
        for name in (topic, f"{topic}.later"):
            site.wait_for(name)
        until(lambda: _lags(driver) == {0.0})  # before it has said so, SIGTERM ends it with status 143: work is left
        assert f'odradek_lake_records_total{{topic="{topic}.later"}} 1.0' in driver.metrics()
        assert f'odradek_lake_lag_offsets{{partition="0",topic="{topic}"}}' in driver.metrics()
        driver.terminate()
        driver.wait()
    finally:
        driver.close()
    site.check()
    expected = committed(own_broker.bootstrap_servers, topic, PARTITIONS)
    rows: list[Any] = spark.read.format("delta").load(str(site.table)).collect()
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in rows) == expected
    assert len(expected) == 8 * 20


@pytest.mark.timeout(3600)
def test_ten_rounds_of_kills(
    spark: SparkSession, own_broker: Broker, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--torture"):
        pytest.skip("the long form runs by `make torture`")
    site = Site(own_broker, topic, tmp_path, jars_of(spark), optimize_every=5)
    chance = random.Random(7)
    kinds = [*KILLS, *KILLS, *chance.sample(list(KILLS), 2)]
    chance.shuffle(kinds)
    torment(site, kinds, chance)
    site.check()
