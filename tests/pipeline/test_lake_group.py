"""The lake's progress as a consumer group, as tools of Kafka's show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
import structlog
from confluent_kafka.admin import AdminClient

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek import Broker
from odradek.cli.main import main
from tests.pipeline.lakes import Lake, create_topic, produce, transact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


def committed_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    asked = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = confluent_kafka.ConsumerGroupTopicPartitions(group, asked)
    (future,) = admin.list_consumer_group_offsets([request]).values()
    return [place.offset for place in future.result(30).topic_partitions]


def test_groups_describe_shows_the_lag_of_a_lake(lake: Lake, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Markers of transactions count as read; what came after the last batch is the lag; no member ever joins."""
    create_topic(lake.bootstrap, topic, 2)
    produce(lake.bootstrap, topic, [b"1"], partition=1)
    transact(lake.bootstrap, topic, topic, [([b"2"] * 5, True), ([b"no"] * 3, False)])
    assert lake.run(topic) == {}
    group = f"odradek-lake-{str(lake.path)[1:].replace('/', '-')}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": lake.bootstrap, "group.id": "asks"})
    ends = [consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, number))[1] for number in range(2)]
    consumer.close()
    assert committed_offsets(lake.bootstrap, group, topic, 2) == ends
    produce(lake.bootstrap, topic, [b"late"] * 4, partition=1)
    with pytest.raises(SystemExit) as ended:
        main(["groups", "describe", "--bootstrap", lake.bootstrap, group])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    lines = {line.split()[1]: line.split() for line in told.splitlines() if line.startswith(topic)}
    assert lines["0"][2:5] == [str(ends[0]), str(ends[0]), "0"]
    assert lines["1"][2:5] == [str(ends[1]), str(ends[1] + 4), "4"]


@pytest.mark.torture
def test_a_group_in_use_is_a_warning_and_no_failure(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"1"])
    busy = f"{topic}-busy"
    member = confluent_kafka.Consumer({"bootstrap.servers": lake.bootstrap, "group.id": busy})
    member.subscribe([topic])
    while not member.assignment():
        member.poll(0.1)
    with structlog.testing.capture_logs() as log:
        assert lake.run(topic, group=busy) == {}
    member.close()
    (warning,) = [entry for entry in log if entry["event"] == "offsets of the group not set"]
    assert "give another --group" in warning["error"]
    assert lake.delta(topic).count() == 1
