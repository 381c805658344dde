"""`lake` and `replay` on S3, a server of moto: every committed record once, one driver a topic, checked by others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")

import structlog

from odradek import Broker
from odradek_pipeline.lake import lease
from odradek_pipeline.lake.lease import Leases
from odradek_pipeline.lake.settings import LakeSettings
from odradek_pipeline.replay.job import replay
from odradek_pipeline.replay.source import Source
from odradek_pipeline.s3 import Objects
from tests.pipeline import replays
from tests.pipeline.lakes import Lake, committed, create_topic, produce, transact
from tests.pipeline.s3_site import S3Site, s3_site
from tests.pipeline.s3_tables import DeltaTables, IcebergTables, ParquetTables, Tables
from tests.pipeline.test_lake_kills import BATCH, PARTITIONS, Driver, Site, jars_of, torment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: dict[str, type[Tables]] = {"delta": DeltaTables, "iceberg": IcebergTables, "parquet": ParquetTables}
PLACE = ("partition", "offset")


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[S3Site]:
    if find_spec("moto") is None:
        pytest.skip("needs moto: pip install 'moto[server]'")
    with s3_site() as site:
        hadoop = spark._jsc.hadoopConfiguration()
        for key, value in site.spark_conf().items():
            hadoop.set(key, value)
        yield site


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the Iceberg catalog, which a session knows but once."""
    return tmp_path_factory.mktemp("catalog") / "catalog.db"


@pytest.fixture
def tables(request: pytest.FixtureRequest, spark: SparkSession, s3: S3Site, topic: str, database: Path) -> Tables:
    found = FORMATS[request.param](spark, s3, f"s3a://{s3.bucket}/{topic}", database)
    for key, value in found.conf.items():
        spark.conf.set(key, value)
    return found


@dataclass
class S3Lake(Lake):
    """A lake at a URL, not at a path."""

    url: str = ""

    def settings(self, **rest: Any) -> LakeSettings:
        return replace(super().settings(**rest), path=self.url)


def fill(bootstrap: str, topic: str, number: int) -> None:
    """Committed and aborted transactions, and a value that is no JSON."""
    rounds = [([{"n": number * 100 + n} for n in range(20)], True), ([{"n": -1}] * 20, False)]
    transact(bootstrap, topic, f"{topic}-{number}", rounds)
    produce(bootstrap, topic, [b"no JSON"])


@pytest.mark.parametrize("tables", FORMATS, indirect=True)
def test_tables_and_checkpoints_on_s3_have_every_record_once(
    spark: SparkSession, broker: Broker, tables: Tables, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, topic, 2)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url=tables.url)
    for number in range(2):
        fill(broker.bootstrap_servers, topic, number)
        assert lake.run(topic, schemas=[f"{topic}=json:n BIGINT"], max_offsets=30, **tables.asked) == {}
        found = sorted(tables.rows(topic, *PLACE) + tables.dead_letters(topic, *PLACE))
        assert found == [one[:2] for one in committed(broker.bootstrap_servers, topic, 2)]


@pytest.mark.parametrize("tables", ["delta"], indirect=True)
def test_a_second_driver_is_refused_on_s3(
    spark: SparkSession, broker: Broker, tables: Tables, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would exclude it: neither Delta's log nor Spark's checkpoint has a write there that fails."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.5)
    create_topic(broker.bootstrap_servers, topic, 2)
    fill(broker.bootstrap_servers, topic, 0)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url=tables.url)
    first = Leases(Objects(spark), lake.settings(topics=(topic,)).lease)
    assert first.acquire(topic)
    failed = lake.run(topic)
    assert "another driver writes this topic" in failed[topic]
    first.end()
    assert lake.run(topic) == {}
    assert tables.rows(topic, *PLACE) == [one[:2] for one in committed(broker.bootstrap_servers, topic, 2)]


def test_a_bucket_that_is_not_there_is_no_lease_to_wait_for(
    spark: SparkSession, broker: Broker, s3: S3Site, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, topic)
    hadoop = spark._jsc.hadoopConfiguration()
    for key, value in S3Site(s3.address, "nowhere").spark_conf().items():
        hadoop.set(key, value)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url="s3a://nowhere/lake")
    assert "bucket" in lake.run(topic, attempts=1)[topic]


def test_replay_reads_a_table_on_s3(spark: SparkSession, broker: Broker, s3: S3Site, topic: str) -> None:
    path = f"s3a://{s3.bucket}/source-{topic}"
    spark.range(50).selectExpr("CAST(id AS STRING) AS k", "id AS v").write.format("delta").save(path)
    wanted = replays.job(broker.bootstrap_servers, topic, Source(path, "delta"))
    for _ in range(2):  # a job that is finished adds nothing
        replay(spark, wanted)
    found = replays.committed(broker.bootstrap_servers, topic)
    assert sorted(int(message.key() or b"") for message in found) == list(range(50))


class S3LakeSite(Site):
    """The driver's tables and checkpoints are on S3."""

    def __init__(self, broker: Broker, topic: str, folder: Path, tables: Tables) -> None:
        super().__init__(broker, topic, folder, jars_of(tables.spark))
        self._tables = tables

    def start(self, *options: str, master: str = "local[2]") -> Driver:
        conf = {f"spark.hadoop.{key}": value for key, value in self._tables.s3.spark_conf().items()} | self._tables.conf
        given = [f"--conf={key}={value}" for key, value in conf.items()]
        return super().start(*options, *self._tables.options, *given, master=master)

    def commits(self) -> int:
        return self._tables.commits(self.topic)

    def check(self, whole: bool = True) -> None:
        found = self._tables.rows(self.topic, *PLACE, "value")
        expected = committed(self.broker.bootstrap_servers, self.topic, PARTITIONS)
        assert len(set(found)) == len(found)
        assert set(found) <= set(expected)
        assert not whole or found == expected


@pytest.mark.parametrize("tables", ["delta", "iceberg"], indirect=True)
def test_kill_9_in_the_middle_of_a_batch_on_s3_leaves_every_record_once(
    spark: SparkSession, broker: Broker, tables: Tables, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start waits until the lease of the killed driver has ended, here for two seconds and not for sixty."""
    site = S3LakeSite(broker, topic, tmp_path, tables)
    site.fill(12)
    driver = site.start()
    try:
        site.wait_for_commits(driver, 2)
        assert driver.running
    finally:
        driver.close()
    site.check(whole=False)
    assert len(tables.rows(topic, *PLACE)) < len(committed(broker.bootstrap_servers, topic, PARTITIONS))
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2.0)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url=tables.url)
    with structlog.testing.capture_logs() as log:
        assert lake.run(topic, max_offsets=BATCH, **tables.asked) == {}
    assert "waiting for the lease of another driver to end" in [event["event"] for event in log]
    site.check()


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tables", ["delta", "iceberg"], indirect=True)
def test_rounds_of_kills_on_s3(own_broker: Broker, tables: Tables, topic: str, tmp_path: Path) -> None:
    """Each start after a kill waits for the lease as long as a user's."""
    site = S3LakeSite(own_broker, topic, tmp_path, tables)
    torment(site, ["driver and JVM", "broker", "JVM", "driver and JVM", "JVM"], random.Random(7))
    site.check()
