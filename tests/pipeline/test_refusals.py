"""What `odradek-pipeline` cannot do is told at once, and shows in the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from odradek import Broker
from tests.pipeline.lakes import Lake, create_topic, produce
from tests.pipeline.replays import committed
from tests.ports import free_port

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from pyspark.sql import SparkSession

from odradek_pipeline.replay.job import Replay, replay
from odradek_pipeline.replay.progress import ReplayRefused
from odradek_pipeline.replay.recipe import Recipe
from odradek_pipeline.replay.source import Source

LAKE = ["--master", "local[1]", "--available-now"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek_pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("command", ["lake", "replay"])
def test_a_wrong_address_fails_before_spark_starts(command: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    rest = ["--lake", str(tmp_path)] if command == "lake" else ["--source", str(tmp_path), "--job", "j"]
    done = run(command, "--bootstrap", address, "--topic", "t", *rest)
    assert done.returncode == 1
    assert f"no broker answers at --bootstrap {address}" in done.stderr
    assert "Connection refused" in done.stderr
    assert "topic found" not in done.stderr
    assert "SparkContext" not in done.stderr


def test_a_topic_that_does_not_exist_is_told_and_the_others_are_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [b"v"])
    lake = Lake(spark, broker.bootstrap_servers, tmp_path)
    failed = lake.run(topic, "nosuch")
    assert failed == {"nosuch": "topic nosuch does not exist"}
    assert lake.delta(topic).count() == 1
    assert not (tmp_path / "nosuch").exists()


def job(broker: Broker, source: Path | str, **recipe: Any) -> Replay:
    given: dict[str, Any] = {"topic": "t"} | recipe
    return Replay(
        job="refused",
        source=Source(str(source), "delta"),
        recipe=Recipe(**given),
        client={"bootstrap.servers": broker.bootstrap_servers},
        tasks=1,
        partitions=1,
    )


def test_a_source_that_does_not_exist_is_told(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(ReplayRefused, match=r"--source /nosuch: there is no such file or folder \(file:/nosuch\)"):
        replay(spark, job(broker, "/nosuch"))
    (tmp_path / "plain").mkdir()
    with pytest.raises(ReplayRefused, match=r"is no Delta table: name its --format"):
        replay(spark, job(broker, tmp_path / "plain"))


def test_sigterm_with_work_left_is_exit_status_143(broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, topic)
    command = ["lake", "--bootstrap", broker.bootstrap_servers, "--lake", str(tmp_path), "--topic", topic]
    schema = ["--schema", f"{topic}=json", "--master", "local[1]"]  # without a record there is nothing to infer from
    program = [sys.executable, "-m", "odradek_pipeline", *command, *schema]
    log = tmp_path / "log"
    with log.open("w") as stream, subprocess.Popen(program, stderr=stream, env=os.environ) as child:
        deadline = time.monotonic() + 240
        while "topic found" not in log.read_text():
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 128 + signal.SIGTERM, log.read_text()
    events = [json.loads(line) for line in log.read_text().splitlines()]  # Ivy's and Spark's too
    assert all(event["event"] and event["level"] and event["timestamp"] for event in events)
    assert any("resolving dependencies" in event["event"] for event in events)


def test_json_goes_from_a_topic_to_the_lake_and_back_unchanged(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    values = [
        {"id": 1, "name": "Ödradek", "at": {"lat": 1.5, "tags": ["a", "b"]}, "counts": [1, 2, 3]},
        {"id": 2, "name": "", "at": {"lat": -0.25, "tags": []}, "counts": []},
        {"id": 3, "name": "without the rest"},
        None,
    ]
    create_topic(broker.bootstrap_servers, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        encoded = None if value is None else json.dumps(value).encode()
        producer.produce(topic, encoded, key=f"k{number}", headers=[("n", str(number).encode())], partition=0)
    assert producer.flush(30) == 0
    lake = Lake(spark, broker.bootstrap_servers, tmp_path)
    ddl = "id BIGINT, name STRING, at STRUCT<lat: DOUBLE, tags: ARRAY<STRING>>, counts ARRAY<INT>"
    assert lake.run(topic, schemas=(f"{topic}=json:{ddl}",)) == {}
    for number, column in enumerate(("value", None)):  # by name, and because it is a lake's table
        back = f"{topic}-back-{number}"
        recipe = Recipe(topic=back, key_column="key", value_column=column, headers_column="headers")
        asked = Replay(
            job=back,
            source=Source(str(tmp_path / topic), "delta"),
            recipe=recipe,
            client={"bootstrap.servers": broker.bootstrap_servers},
            tasks=1,
            partitions=1,
        )
        assert replay(spark, asked).rows == len(values)
        records = {record.key(): record for record in committed(broker.bootstrap_servers, back)}
        for index, value in enumerate(values):
            record = records[f"k{index}".encode()]
            found = record.value()
            assert (None if found is None else json.loads(found)) == value
            assert record.headers() == [("n", str(index).encode())]
