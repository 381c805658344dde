"""The `odradek` data source in Spark over a broker with tiered storage: cold records come from the tier itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odradek import Broker
from tests.command_line import Odradek
from tests.doubles.s3_server import S3Server, s3_server
from tests.pages import block
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic, produce, transact
from tests.pipeline.test_datasource import found, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "log.retention.ms": "-1",
}
TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "30000",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
}
SECONDS = 60


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> Iterator[SparkSession]:
    from odradek_pipeline.datasource import register  # needs PySpark, without which `spark` skips

    register(spark)
    yield spark


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[S3Server, str]]:
    with s3_server() as served:
        yield served


@pytest.fixture(scope="module", params=["folder", "s3"])
def tiered(
    request: pytest.FixtureRequest, bucket: tuple[S3Server, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, dict[str, str]]]:
    """A broker, and the options with which the source finds its tier."""
    if request.param == "folder":
        directory = str(tmp_path_factory.mktemp("tier"))
        store, options = {"rsm.config.dir": directory}, {"tier": directory}
    else:
        _, address = bucket
        store = {
            "rsm.config.storage.s3.bucket.name": "archive",
            "rsm.config.key.prefix": "tier/",
            "rsm.config.storage.s3.endpoint.url": address,
            "rsm.config.storage.s3.region": "us-east-1",
            "rsm.config.storage.aws.access.key.id": "key",
            "rsm.config.storage.aws.secret.access.key": "secret",
        }
        keys = {"s3AccessKey": "key", "s3SecretKey": "secret"}
        options = {"tier": "s3://archive/tier/", "s3Endpoint": address, "s3Region": "us-east-1", **keys}
    settings = {**SETTINGS, **store, "remote.log.storage.manager.class.name": request.param}
    with Broker(settings, profile="dev") as broker:
        yield broker, options


def fill(broker: Broker, topic: str) -> None:
    """Plain records, and transactions of either outcome, over many segments; waits until only the end is local.

    The last segments are of plain records, so that no transaction is open where the tier ends.
    """
    create_topic(broker.bootstrap_servers, topic, 2, **{key.replace(".", "_"): value for key, value in TIERED.items()})
    for number in range(8):
        plain(broker, topic)
        rounds = [([b"yes" * 300] * 20, True), ([b"no" * 300] * 20, False)]
        transact(broker.bootstrap_servers, topic, f"{topic}-{number % 2}", rounds)
    for number in range(2):  # who begins with the same id waits until the markers of the last transaction are written
        transact(broker.bootstrap_servers, topic, f"{topic}-{number}", [])
    plain(broker, topic)
    plain(broker, topic)
    deadline = time.monotonic() + SECONDS
    while any(len(list((broker.data_dir / f"{topic}-{n}").glob("*.log"))) > 1 for n in (0, 1)):
        assert time.monotonic() < deadline, Odradek(broker.bootstrap_servers).told("tier", "status", topic)
        time.sleep(0.1)


def plain(broker: Broker, topic: str) -> None:
    """22 KB for each partition: twice as much is more than a segment."""
    for partition in (0, 1):
        produce(broker.bootstrap_servers, topic, [b"%d" % n * 200 for n in range(60)], partition=partition)


@pytest.mark.every_spark
def test_spark_reads_cold_records_from_the_tier(
    source: SparkSession, tiered: tuple[Broker, dict[str, str]], topic: str
) -> None:
    """As the page shows it, by the metadata topic and by a listing, while the broker runs, and when it is gone."""
    broker, options = tiered
    fill(broker, topic)
    committed = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    everything = consumed(broker.bootstrap_servers, topic, 2, "read_uncommitted")
    assert len(everything) > len(committed) > 0
    first = min(int(log.name[:20]) for log in (broker.data_dir / f"{topic}-0").glob("*.log"))
    assert first > 0
    page = examples(source, broker, topic, options)
    assert found(page["clicks"]) == found(page["clicks_of_s3"]) == committed
    for more in ({"tierMetadata": "listing"}, {"splitBytes": "20000"}):
        assert found(table(source, broker.data_dir, topic, **options, **more)) == committed
    uncommitted = table(source, broker.data_dir, topic, isolationLevel="read_uncommitted", **options)
    assert found(uncommitted) == everything
    assert found(page["left"]) == [row for row in committed if row[1] < ends(broker, topic)[row[0]]]
    broker.kill()
    try:
        assert found(table(source, broker.data_dir, topic, **options)) == committed
    finally:
        broker.start()


def examples(spark: SparkSession, broker: Broker, topic: str, options: dict[str, str]) -> dict[str, DataFrame]:
    """What the page's block makes, by name, with this topic, folder and tier."""
    code = block("docs/pipeline.md", "clicks_of_s3 =", "python")
    here = {
        '"clicks"': repr(topic),
        '"/var/lib/odradek"': repr(str(broker.data_dir)),
        'tier="/mnt/archive"': "**options",
        '"tier": "s3://archive/kafka/", "s3Region": "eu-central-1"': "**options",
    }
    for printed, ours in here.items():
        assert printed in code
        code = code.replace(printed, ours)
    made: dict[str, Any] = {"spark": spark, "options": options}
    exec(code, made)
    return made


def ends(broker: Broker, topic: str) -> list[int]:
    """Where the local log of each partition begins, which is where the tier ends."""
    return [min(int(log.name[:20]) for log in (broker.data_dir / f"{topic}-{n}").glob("*.log")) for n in (0, 1)]


def test_a_stream_begins_in_the_tier_and_goes_on_in_the_folder(
    source: SparkSession, tiered: tuple[Broker, dict[str, str]], topic: str, tmp_path: Path
) -> None:
    broker, options = tiered
    fill(broker, topic)

    def run() -> None:
        stream = source.readStream.format("odradek").options(
            path=str(broker.data_dir), topics=topic, startingOffsets="earliest", **options
        )
        writer = stream.load().writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert running.awaitTermination(120)

    run()
    produce(broker.bootstrap_servers, topic, [b"more" * 300] * 20, partition=0)
    run()
    delivered = found(source.read.format("delta").load(str(tmp_path / "table")))
    assert delivered == consumed(broker.bootstrap_servers, topic, 2, "read_committed")
