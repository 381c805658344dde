"""`lake` with a registry that goes away, and kill -9 of workers, driver, JVM, brokers: batches have several schema ids.

Values are Protobuf's, read by workers in Python, keys Avro's, read in the JVM.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

import structlog

from odradek import Broker
from odradek_pipeline.registry import Registry
from odradek_pipeline.schemas.protobuf import Messages
from odradek_pipeline.schemas.protoc import compile_text
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, committed, create_topic, produce
from tests.pipeline.registries import avro, prefixed, register, registry_broker
from tests.pipeline.test_lake_kills import KILLS, PARTITIONS, Driver, Kill, Site, jars_of, torment, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN_ID = 99_999
LETTERS = {"no schema prefix", f"schema id {UNKNOWN_ID} is unknown", f"key: schema id {UNKNOWN_ID} is unknown"}
IDS_AT_ONCE = 3


@pytest.fixture
def own_registry() -> Iterator[Broker]:
    """A broker whose registry is to be killed; the topic is another broker's."""
    with registry_broker() as broker:
        yield broker


class Orders:
    """Records with ever more schemas: each `fill` brings one of the values and one of the keys, beside earlier ones."""

    def __init__(self, bootstrap: str, registry: Broker, topic: str) -> None:
        self.good: set[int] = set()
        self._bootstrap, self._registry, self._topic = bootstrap, registry, topic
        self._numbers = itertools.count(1)
        self._schemas: list[tuple[int, Any, int, dict[str, Any]]] = []
        self._chance = random.Random(3)

    def fill(self, records: int) -> None:
        self._new_schemas()
        for _ in range(records):
            number = next(self._numbers)
            value_id, message, key_id, key = self._chance.choice(self._schemas[-IDS_AT_ONCE:])
            fields = {field.name: number for field in message.DESCRIPTOR.fields}
            framed = prefixed(value_id, b"\0" + message(**fields).SerializeToString())
            framed_key = prefixed(key_id, avro(key, {field["name"]: number for field in key["fields"]}))
            if number % 10 == 0:
                framed, framed_key = self._chance.choice(
                    [(b"x", framed_key), (prefixed(UNKNOWN_ID, b"\0"), framed_key), (framed, prefixed(UNKNOWN_ID, b""))]
                )
            else:
                self.good.add(number)
            produce(self._bootstrap, self._topic, [framed], key=framed_key, partition=number % PARTITIONS)

    def _new_schemas(self) -> None:
        count = len(self._schemas) + 1
        fields = "".join(f" int64 f{number} = {number + 1};" for number in range(count))
        text = f'syntax = "proto3"; message Order {{ int64 id = {count + 1};{fields} }}'
        messages = Messages(compile_text(text, {}))
        key = {"type": "record", "name": "K", "fields": [{"name": f"k{each}", "type": "long"} for each in range(count)]}
        value_id = register(self._registry, f"{self._topic}-value", text, "PROTOBUF")
        key_id = register(self._registry, f"{self._topic}-key", key)
        self._schemas.append((value_id, messages.class_at([0]), key_id, key))

    def check(self, table: Path, whole: bool = True) -> None:
        """Every committed record is in one of the two tables once, as what it was written as; read by delta-rs."""
        rows = readers.rows("delta", table)
        letters = readers.rows("delta", Path(f"{table}@dead-letters"))
        found = sorted((row["partition"], row["offset"]) for row in (*rows, *letters))
        expected = [(partition, offset) for partition, offset, _ in committed(self._bootstrap, self._topic, PARTITIONS)]
        assert len(set(found)) == len(found), "a record is there twice"
        assert set(found) <= set(expected)
        assert {row["reason"] for row in letters} <= LETTERS
        for row in rows:
            number = row["value"]["id"]
            assert {content for content in row["value"].values() if content is not None} == {number}
            assert {content for content in row["key"].values() if content is not None} == {number}
        numbers = {row["value"]["id"] for row in rows}
        assert numbers <= self.good
        assert not whole or (found == expected and numbers == self.good)


def workers_of(spark: SparkSession) -> list[int]:
    """The process ids of the Python workers of the tests' own JVM (Linux)."""
    jvm = spark.sparkContext._gateway.proc.pid
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for pid, command in commands.items() if "pyspark.daemon" in command and _is_below(pid, jvm, parents)]


def _is_below(pid: int, above: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == above:
            return True
    return False


@pytest.mark.every_spark
def test_a_registry_that_is_away_is_waited_for_and_killed_workers_lose_nothing(
    spark: SparkSession, broker: Broker, own_registry: Broker, topic: str, tmp_path: Path
) -> None:
    """The registry is away before the first id and again before the last; workers go in the middle of batches."""
    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    orders = Orders(broker.bootstrap_servers, own_registry, topic)
    for _ in range(3):
        orders.fill(30)
    lake = Lake(spark, broker.bootstrap_servers, tmp_path / "lake", Registry(own_registry.registry_urls[0]))
    given = {"schemas": [f"{topic}=protobuf"], "key_schemas": [f"{topic}=avro"], "max_offsets": 24, "attempts": 50}
    outcome: dict[str, str] = {}
    own_registry.kill()
    killed = 0
    with structlog.testing.capture_logs() as log:
        job = threading.Thread(target=lambda: outcome.update(lake.run(topic, **given)))
        job.start()
        until(lambda: _waits(log) > 0)
        own_registry.start()
        until(lambda: _commits(lake, topic) > 0)
        own_registry.kill()
        killed += _kill(workers_of(spark))
        before = _waits(log)
        until(lambda: _waits(log) > before or not job.is_alive())
        own_registry.start()
        until(lambda: _commits(lake, topic) > 2 or not job.is_alive())
        killed += _kill(workers_of(spark))
        job.join(300)
    assert not job.is_alive()
    assert outcome == {}
    assert _waits(log) > before, "the last id was known before the registry went"
    assert killed
    orders.check(lake.path / topic)


def _waits(log: list[Any]) -> int:
    return sum(event["event"] == "registry is away; waiting" for event in log)


def _commits(lake: Lake, topic: str) -> int:
    return len(list((lake.path / topic / "_delta_log").glob("*.json")))


def _kill(workers: list[int]) -> int:
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
    return len(workers)


class RegistrySite(Site):
    schemas = "protobuf", "avro"
    """Of values and keys."""

    def __init__(self, broker: Broker, registry: Broker, topic: str, folder: Path, jars: str) -> None:
        super().__init__(broker, topic, folder, jars, optimize_every=4)
        self.registry = registry
        self.orders = Orders(broker.bootstrap_servers, registry, topic)

    def fill(self, transactions: int) -> None:
        self.orders.fill(transactions * 15)

    def start(self, *options: str, master: str = "local[2]") -> Driver:
        values, keys = self.schemas
        schemas = "--schema", f"{self.topic}={values}", "--key-schema", f"{self.topic}={keys}"
        return super().start(*options, *schemas, "--registry", self.registry.registry_urls[0], master=master)

    def check(self, whole: bool = True) -> None:
        self.orders.check(self.table, whole)


def _worker(site: Site, driver: Driver) -> None:
    until(lambda: bool(driver.jvms("pyspark.daemon")) or not driver.running)
    _kill(driver.jvms("pyspark.daemon"))


def _registry(site: Site, driver: Driver) -> None:
    assert isinstance(site, RegistrySite)
    site.registry.kill()
    time.sleep(1)
    site.registry.start()


REGISTRY_KILLS: dict[str, Kill] = {**KILLS, "worker": _worker, "registry": _registry}


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_schema_ids_through_kills(
    spark: SparkSession, own_broker: Broker, own_registry: Broker, topic: str, tmp_path: Path
) -> None:
    site = RegistrySite(own_broker, own_registry, topic, tmp_path, jars_of(spark))
    kinds = ["registry", "worker", "driver and JVM", "broker", "worker", "JVM", "registry", "driver and JVM", "worker"]
    torment(site, kinds, random.Random(13), REGISTRY_KILLS)
    site.check()
