"""The `odradek` data source in Spark, over the folder of a broker that runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from odradek import Broker
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic, delete_records, produce, transact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> Iterator[SparkSession]:
    from odradek_pipeline.datasource import register  # needs PySpark, without which `spark` skips

    register(spark)
    yield spark


def table(spark: SparkSession, folder: Path, topic: str, **options: Any) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("odradek").options(topics=topic, **given).load(str(folder))


def found(frame: DataFrame) -> list[tuple[Any, ...]]:
    """As `consumed` has it."""
    return sorted(
        (
            row.partition,
            row.offset,
            row.key and bytes(row.key),
            row.value and bytes(row.value),
            tuple((one.key, one.value and bytes(one.value)) for one in row.headers),
            (row.timestampType, round(row.timestamp.timestamp() * 1000)),
        )
        for row in frame.collect()
    )


@pytest.mark.every_spark
def test_spark_reads_what_a_consumer_reads(source: SparkSession, broker: Broker, topic: str) -> None:
    """Transactions of either outcome, one that is open, every codec, headers, nulls, several splits."""
    create_topic(broker.bootstrap_servers, topic, 2, internal_segment_bytes="100000", index_interval_bytes="500")
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
        for record in range(300):
            headers: list[tuple[str, str | bytes | None]] = (
                [("n", str(record).encode()), ("none", None)] if record % 3 else []
            )
            producer.produce(topic, b"v" * record if record % 5 else None, b"%d" % record, headers=headers)
        assert producer.flush(30) == 0
        rounds = [([b"yes"] * 3, True), ([b"no"] * 3, False), ([b"yes"], True)]
        transact(broker.bootstrap_servers, topic, f"{topic}-{number}", rounds)
    slow = {"transactional.id": f"{topic}-open", "transaction.timeout.ms": 600_000}
    hanging = Producer({"bootstrap.servers": broker.bootstrap_servers} | slow)
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(topic, b"open", partition=0)
    assert hanging.flush(30) == 0
    produce(broker.bootstrap_servers, topic, [b"behind"], partition=0)
    expected = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    assert len(expected) == len(CODECS) * 304
    whole = table(source, broker.data_dir, topic)
    assert found(whole) == expected
    pieces = table(source, broker.data_dir, topic, splitBytes=10_000, batchBytes=1000)
    assert pieces.rdd.getNumPartitions() > 2
    assert found(pieces) == expected
    everything = table(source, broker.data_dir, topic, isolationLevel="read_uncommitted")
    assert found(everything) == consumed(broker.bootstrap_servers, topic, 2, "read_uncommitted")
    hanging.abort_transaction(30)


def test_a_part_of_the_columns_and_of_the_log(source: SparkSession, broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic, 2)
    for partition in (0, 1):
        produce(broker.bootstrap_servers, topic, [b"%d" % n for n in range(100)], key=b"k", partition=partition)
    delete_records(broker.bootstrap_servers, topic, 30)
    some = table(source, broker.data_dir, topic, columns="offset,value", partitions="0")
    assert [(row.offset, bytes(row.value)) for row in some.orderBy("offset").collect()] == [
        (n, b"%d" % n) for n in range(30, 100)
    ]
    starting = f'{{"{topic}":{{"0":-1,"1":95}}}}'
    by_schema = source.read.format("odradek").schema("partition int, offset long")
    frame = by_schema.options(topics=topic, startingOffsets=starting).load(str(broker.data_dir))
    assert sorted(frame.where("offset >= 98").collect()) == [(1, 98), (1, 99)]
    with pytest.raises(Exception, match="there are 30 up to 100"):
        table(source, broker.data_dir, topic, startingOffsets=f'{{"{topic}":{{"0":29}}}}').count()


@pytest.mark.every_spark
def test_filters_that_spark_pushes_down_change_no_rows(source: SparkSession, broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic, 2)
    for partition in (0, 1):
        produce(broker.bootstrap_servers, topic, [b"%d" % n for n in range(100)], partition=partition)
    source.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = table(source, broker.data_dir, topic, columns="partition,offset", filterPushdown=True)
        some = frame.where("partition = 1 AND offset >= 95")
        assert sorted(some.collect()) == [(1, offset) for offset in range(95, 100)]
    finally:
        source.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_copied_folder_and_damage_in_it(source: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, topic)
    for number in range(20):
        produce(broker.bootstrap_servers, topic, [b"%d" % number])
    shutil.copytree(broker.data_dir / f"{topic}-0", tmp_path / f"{topic}-0")
    whole = found(table(source, tmp_path, topic))
    assert whole == consumed(broker.bootstrap_servers, topic, 1, "read_committed")
    [log] = (tmp_path / f"{topic}-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[data.index(b"\x0411\x00")] ^= 2
    log.write_bytes(data)
    log.with_name(f"{20:020d}.log").touch()
    with pytest.raises(Exception, match="after offset 10: its checksum is wrong"):
        table(source, tmp_path, topic).count()
    assert found(table(source, tmp_path, topic, failOnCorruption="false")) == whole[:11] + whole[12:]


def test_a_stream_delivers_every_record_once_over_restarts(
    source: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, topic, 2, internal_segment_bytes="100000")

    def run() -> None:
        stream = source.readStream.format("odradek").options(
            path=str(broker.data_dir), topics=topic, startingOffsets="earliest", splitBytes="20000"
        )
        writer = stream.load().writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert running.awaitTermination(120)

    for number in range(2):
        for partition in (0, 1):
            produce(broker.bootstrap_servers, topic, [b"x" * 100] * 400, partition=partition)
        rounds = [([b"yes"] * 5, True), ([b"no"] * 5, False)]
        transact(broker.bootstrap_servers, topic, f"{topic}-{number}", rounds)
        run()
    delivered = found(source.read.format("delta").load(str(tmp_path / "table")))
    assert delivered == consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    assert len(delivered) == 2 * 805


@pytest.mark.every_spark
def test_a_stream_follows_a_broker_in_limited_steps(source: SparkSession, broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [b"%d" % n for n in range(250)])
    stream = source.readStream.format("odradek").options(
        path=str(broker.data_dir), topics=topic, startingOffsets="earliest", maxOffsetsPerTrigger="100"
    )
    name = topic.replace("-", "_")
    running = stream.load().writeStream.format("memory").queryName(name).start()
    try:
        running.processAllAvailable()
        produce(broker.bootstrap_servers, topic, [b"%d" % n for n in range(250, 300)])
        running.processAllAvailable()
    finally:
        running.stop()
    assert [one.numInputRows for one in running.recentProgress if one.numInputRows] == [100, 100, 50, 50]
    values = source.table(name).orderBy("offset").collect()
    assert [bytes(row.value) for row in values] == [b"%d" % n for n in range(300)]
