"""Spark's own Kafka connector: it behaves against Odradek as it does against Apache Kafka 4.1.

Every expectation here was seen against Apache Kafka 4.1.0 first. With ODRADEK_KAFKA=HOST:PORT of one, each test runs
against it as well.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from odradek import Broker
from tests.pipeline.lakes import (
    create_topic,
    delete_records,
    delete_topic,
    offsets,
    produce,
    set_topic_config,
    transact,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

KAFKA = os.environ.get("ODRADEK_KAFKA")
HOUR_MS = 3_600_000


@dataclass
class Side:
    spark: SparkSession
    bootstrap: str
    folder: Path

    def read(self, topic: str, **options: object) -> DataFrame:
        frame: DataFrame = self._given(self.spark.read, topic, options).load()
        return frame

    def stream(self, topic: str, **options: object) -> list[dict[str, Any]]:
        """Run a query over all there is now, into a file sink: one entry a batch. A second call goes on after it."""
        query = self._started(topic, options)
        query.awaitTermination(120)
        return [{"rows": batch.numInputRows} for batch in query.recentProgress if batch.numInputRows]

    def failure(self, topic: str, **options: object) -> str:
        from pyspark.errors import StreamingQueryException

        with pytest.raises(StreamingQueryException) as caught:
            self._started(topic, options).awaitTermination(120)
        return str(caught.value)

    def streamed(self) -> list[tuple[int, int]]:
        return offsets(self.spark.read.parquet(str(self.folder / "out")))

    def _started(self, topic: str, options: dict[str, object]) -> StreamingQuery:
        given = self._given(self.spark.readStream, topic, {"startingOffsets": "earliest"} | options).load()
        writer = given.select("partition", "offset").writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query: StreamingQuery = writer.start(str(self.folder / "out"))
        return query

    def _given(self, reader: Any, topic: str, options: dict[str, object]) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        if not {"assign", "subscribePattern"} & options.keys():
            reader = reader.option("subscribe", topic)
        for key, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            reader = reader.option(key.replace("__", "."), text)
        return reader


@pytest.fixture(params=["odradek", "kafka"])
def side(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Side:
    if request.param == "odradek":
        broker: Broker = request.getfixturevalue("broker")
        return Side(spark, broker.bootstrap_servers, tmp_path)
    if KAFKA is None:
        pytest.skip("ODRADEK_KAFKA names no Apache Kafka to compare with")
    return Side(spark, KAFKA, tmp_path)


def _fill(side: Side, topic: str, partitions: int = 2, each: int = 10) -> None:
    """Records at one a minute from 1970-01-01 01:00 on, the same in each partition."""
    create_topic(side.bootstrap, topic, partitions, retention_ms="-1")
    for partition in range(partitions):
        for number in range(each):
            produce(side.bootstrap, topic, [b"%d" % number], partition=partition, timestamp=HOUR_MS + number * 60_000)


def test_batch_between_offsets(side: Side, topic: str) -> None:
    _fill(side, topic)
    start, end = {topic: {"0": 2, "1": -2}}, {topic: {"0": 5, "1": -1}}
    assert offsets(side.read(topic, startingOffsets=start, endingOffsets=end)) == [
        *((0, number) for number in (2, 3, 4)),
        *((1, number) for number in range(10)),
    ]
    assert side.read("", assign={topic: [1]}).count() == 10
    assert side.read("", subscribePattern=f"{topic[:-1]}.*").count() == 20


def test_batch_by_timestamp(side: Side, topic: str) -> None:
    _fill(side, topic)
    at = {"0": HOUR_MS + 3 * 60_000, "1": HOUR_MS + 90_000}
    until = {"0": HOUR_MS + 6 * 60_000, "1": HOUR_MS + 100 * HOUR_MS}
    found = side.read(topic, startingOffsetsByTimestamp={topic: at}, endingOffsetsByTimestamp={topic: until})
    assert offsets(found) == [(0, 3), (0, 4), (0, 5), *((1, number) for number in range(2, 10))]
    assert offsets(side.read(topic, startingTimestamp=str(HOUR_MS + 8 * 60_000 + 1))) == [(0, 9), (1, 9)]
    with pytest.raises(Exception, match="No offset matched from request"):
        side.read(topic, startingTimestamp=str(HOUR_MS * 100)).count()
    late = side.read(topic, startingTimestamp=str(HOUR_MS * 100), startingOffsetsByTimestampStrategy="latest")
    assert late.count() == 0


def test_more_tasks_than_partitions_read_the_same(side: Side, topic: str) -> None:
    _fill(side, topic)
    split = side.read(topic, minPartitions=6)
    assert split.rdd.getNumPartitions() == 6
    assert offsets(split) == [(partition, number) for partition in range(2) for number in range(10)]


def test_columns_headers_and_timestamps(side: Side, topic: str) -> None:
    create_topic(side.bootstrap, topic)
    produce(side.bootstrap, topic, [b"v", None], key=b"k", timestamp=HOUR_MS + 1, headers=[("a", b"1"), ("a", None)])
    produce(side.bootstrap, topic, [b""], timestamp=1)
    rows = (
        side.read(topic, includeHeaders="true").orderBy("offset").selectExpr("*", "unix_millis(timestamp) ms").collect()
    )
    assert [(row.key and bytes(row.key), row.value if row.value is None else bytes(row.value)) for row in rows] == [
        (b"k", b"v"),
        (b"k", None),
        (None, b""),
    ]
    assert [(row.ms, row.timestampType, row.topic) for row in rows] == [(HOUR_MS + 1, 0, topic)] * 2 + [(1, 0, topic)]
    pairs = [
        row.headers and [(header.key, header.value and bytes(header.value)) for header in row.headers] for row in rows
    ]
    assert pairs == [[("a", b"1"), ("a", None)]] * 2 + [None]


def test_isolation(side: Side, topic: str) -> None:
    create_topic(side.bootstrap, topic)
    transact(side.bootstrap, topic, topic, [([b"1", b"2"], True), ([b"3"], False), ([b"4"], True)])
    assert offsets(side.read(topic)) == [(0, 0), (0, 1), (0, 3), (0, 5)]
    committed = {"kafka.isolation.level": "read_committed"}
    assert offsets(side.read(topic, **committed)) == [(0, 0), (0, 1), (0, 5)]
    assert side.stream(topic, maxOffsetsPerTrigger=3, **committed) == [{"rows": 2}, {"rows": 1}]
    assert side.streamed() == [(0, 0), (0, 1), (0, 5)]


def test_writing(side: Side, topic: str) -> None:
    create_topic(side.bootstrap, topic, 2)
    rows = side.spark.createDataFrame(
        [("a", "1", [("h", bytearray(b"x"))], 0), ("b", None, None, 1)],
        "key STRING, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT",
    )
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", side.bootstrap).option("topic", topic)
    writer.option("includeHeaders", "true").save()
    read = side.read(topic, includeHeaders="true").orderBy("partition").collect()
    assert [(row.partition, bytes(row.key), row.value and bytes(row.value)) for row in read] == [
        (0, b"a", b"1"),
        (1, b"b", None),
    ]
    assert [(header.key, bytes(header.value)) for header in read[0].headers] == [("h", b"x")]


def test_streaming_rate_limits(side: Side, topic: str) -> None:
    _fill(side, topic)
    assert side.stream(topic, maxOffsetsPerTrigger=8) == [{"rows": 8}, {"rows": 8}, {"rows": 4}]
    produce(side.bootstrap, topic, [b"x"] * 3, partition=0)
    assert side.stream(topic, maxOffsetsPerTrigger=8) == [{"rows": 3}]
    assert side.streamed() == [(p, number) for p in range(2) for number in range(10 if p else 13)]


def test_deleted_records_fail_a_stream_or_are_passed_over(side: Side, topic: str) -> None:
    _fill(side, topic, partitions=1)
    assert side.stream(topic) == [{"rows": 10}]
    produce(side.bootstrap, topic, [b"x"] * 10)
    delete_records(side.bootstrap, topic, 15)
    assert "may have been lost because they are not available in Kafka any more" in side.failure(topic)
    assert sum(batch["rows"] for batch in side.stream(topic, failOnDataLoss="false")) == 5
    assert side.streamed() == [(0, number) for number in [*range(10), *range(15, 20)]]


def test_deleted_records_fail_a_batch_or_are_passed_over(side: Side, topic: str) -> None:
    _fill(side, topic, partitions=1)
    delete_records(side.bootstrap, topic, 4)
    assert offsets(side.read(topic)) == [(0, number) for number in range(4, 10)]
    start = {"startingOffsets": {topic: {"0": 0}}}
    with pytest.raises(Exception, match="may have been lost"):
        side.read(topic, **start).count()
    assert offsets(side.read(topic, failOnDataLoss="false", **start)) == [(0, number) for number in range(4, 10)]


def test_a_topic_made_anew_with_fewer_records_fails_a_stream(side: Side, topic: str) -> None:
    _fill(side, topic, partitions=1)
    assert side.stream(topic) == [{"rows": 10}]
    delete_topic(side.bootstrap, topic)
    assert "UnknownTopicOrPartitionException" in side.failure(topic)
    _recreated(side, topic)
    assert "offset was changed from 10 to 4" in side.failure(topic)
    assert side.stream(topic, failOnDataLoss="false") == []
    produce(side.bootstrap, topic, [b"later"])
    assert side.stream(topic, failOnDataLoss="false") == [{"rows": 1}]
    assert side.streamed() == sorted([*((0, number) for number in range(10)), (0, 4)])


def _recreated(side: Side, topic: str) -> None:
    """Apache Kafka refuses the name until the old topic is gone."""

    def made() -> bool:
        try:
            create_topic(side.bootstrap, topic)
        except confluent_kafka.KafkaException as error:
            assert error.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
            return False
        return True

    _until(made)
    produce(side.bootstrap, topic, [b"new"] * 4)


def test_retention_moves_the_start(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    """Of Odradek alone: the interval of Apache Kafka's retention is set when it starts."""
    with Broker({"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 100}) as broker:
        side = Side(spark, broker.bootstrap_servers, tmp_path)
        create_topic(side.bootstrap, topic, segment_bytes="1048576", retention_ms="-1")
        produce(side.bootstrap, topic, [b"first"], timestamp=HOUR_MS)
        assert side.stream(topic) == [{"rows": 1}]
        produce(side.bootstrap, topic, [b"x" * 900_000] * 4, timestamp=HOUR_MS)
        set_topic_config(side.bootstrap, topic, "retention.ms", "3600000")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": side.bootstrap, "group.id": "x"})
        partition = confluent_kafka.TopicPartition(topic, 0)
        _until(lambda: consumer.get_watermark_offsets(partition)[0] > 1)
        consumer.close()
        assert "may have been lost" in side.failure(topic)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
