"""`lake` and `replay` on S3, a server of moto: every committed record once, one driver a topic, checked by others."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odradek import Broker
from odradek_pipeline.lake import lease
from odradek_pipeline.lake.lease import Leases
from odradek_pipeline.lake.settings import LakeSettings
from odradek_pipeline.replay.job import replay
from odradek_pipeline.replay.source import Source
from odradek_pipeline.s3 import Objects
from tests.pipeline import replays
from tests.pipeline.lakes import Lake, committed, create_topic, produce, transact
from tests.pipeline.moto_server import S3Site, moto_server
from tests.pipeline.test_lake_kills import Driver, Site, jars_of

deltalake = pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[S3Site]:
    if find_spec("moto") is None:
        pytest.skip("needs moto: pip install 'moto[server]'")
    with moto_server() as site:
        hadoop = spark._jsc.hadoopConfiguration()
        for key, value in site.spark_conf().items():
            hadoop.set(key, value)
        yield site


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


def places(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    return [one[:2] for one in committed(bootstrap, topic, 2)]


def read_delta(s3: S3Site, spark: SparkSession, path: str, topic: str) -> list[tuple[int, int]]:
    found = []
    for name in (topic, f"{topic}@dead-letters"):
        table = deltalake.DeltaTable(f"{path}/{name}".replace("s3a", "s3"), storage_options=s3.delta_options())
        found += table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in found)


def read_parquet(s3: S3Site, spark: SparkSession, path: str, topic: str) -> list[tuple[int, int]]:
    """By Spark, which honours the sink's log."""
    frames = [spark.read.parquet(f"{path}/{name}") for name in (topic, f"{topic}@dead-letters")]
    rows = [row for frame in frames for row in frame.select("partition", "offset").collect()]
    return sorted((row.partition, row.offset) for row in rows)


READERS = {"delta": read_delta, "parquet": read_parquet}


@pytest.mark.parametrize("table_format", READERS)
def test_tables_and_checkpoints_on_s3_have_every_record_once(
    spark: SparkSession, broker: Broker, s3: S3Site, topic: str, table_format: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, topic, 2)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url=f"s3a://{s3.bucket}/{table_format}")
    for number in range(2):
        fill(broker.bootstrap_servers, topic, number)
        schemas = [f"{topic}=json:n BIGINT"]
        assert lake.run(topic, table_format=table_format, schemas=schemas, max_offsets=30) == {}
        found = READERS[table_format](s3, spark, lake.url, topic)
        assert found == places(broker.bootstrap_servers, topic)


def test_a_second_driver_is_refused_on_s3(
    spark: SparkSession, broker: Broker, s3: S3Site, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would exclude it: neither Delta's log nor Spark's checkpoint has a write there that fails."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.5)
    create_topic(broker.bootstrap_servers, topic, 2)
    fill(broker.bootstrap_servers, topic, 0)
    lake = S3Lake(spark, broker.bootstrap_servers, tmp_path, url=f"s3a://{s3.bucket}/second")
    first = Leases(Objects(spark), lake.settings(topics=(topic,)).lease)
    assert first.acquire(topic)
    failed = lake.run(topic)
    assert "another driver writes this topic" in failed[topic]
    first.end()
    assert lake.run(topic) == {}
    rows = spark.read.format("delta").load(f"{lake.url}/{topic}").collect()
    found = sorted((row.partition, row.offset) for row in rows)
    assert found == places(broker.bootstrap_servers, topic)


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


def test_kill_9_in_the_middle_of_a_batch_on_s3_leaves_every_record_once(
    spark: SparkSession, own_broker: Broker, s3: S3Site, topic: str, tmp_path: Path
) -> None:
    """The next start waits until the lease of the killed driver has ended."""
    site = Site(own_broker, topic, tmp_path, jars_of(spark))
    site.fill(12)
    options = [f"--lake=s3a://{s3.bucket}/kills", f"--topic={topic}", "--available-now"]
    options += [f"--conf=spark.hadoop.{key}={value}" for key, value in s3.spark_conf().items()]
    chance = random.Random(7)
    driver = site.start(*options)
    try:
        wait_for_commit(s3, driver, topic)
        time.sleep(chance.uniform(0, 1))
    finally:
        driver.close()
    site.fill(6)
    last = site.start(*options)
    try:
        last.wait()
    finally:
        last.close()
    table = deltalake.DeltaTable(f"s3://{s3.bucket}/kills/{topic}", storage_options=s3.delta_options())
    rows = table.to_pyarrow_table(columns=["partition", "offset", "value"]).to_pylist()
    found = sorted((row["partition"], row["offset"], row["value"]) for row in rows)
    assert found == committed(own_broker.bootstrap_servers, topic, 2)


def wait_for_commit(s3: S3Site, driver: Driver, topic: str) -> None:
    """Until the table has its first commit, of several."""
    from pyarrow import fs

    log = fs.FileSelector(f"{s3.bucket}/kills/{topic}/_delta_log", allow_not_found=True)
    deadline = time.monotonic() + 300
    while not s3.arrow().get_file_info(log):
        assert driver.running
        assert time.monotonic() < deadline
        time.sleep(0.05)
