"""`lake`'s command line, and what it reports of a run."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from click.testing import CliRunner

pytest.importorskip("tqdm", reason="requirements-pipeline.txt is not installed")

from prometheus_client import REGISTRY

from odradek_pipeline import log_lines
from odradek_pipeline.cli import main
from odradek_pipeline.kafka import ClusterAddress
from odradek_pipeline.lake.progress import Reporter, configure, lag

NEEDED = ["lake", "--bootstrap", "nowhere:1", "--lake", "/nowhere"]

NO_PARTITIONING = ("t", "t=", "t=minute(timestamp)", "t=bucket(key)", "t=hour(a),hour(a)", "t=a b", "u=date")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --topic or --pattern"),
        (["--topic", "a", "--pattern", "b"], "give either --topic or --pattern"),
        (["--pattern", "a("], "--pattern: missing )"),
        (["--topic", "a", "--catalog", "c"], "--catalog is for --format iceberg"),
        (["--topic", "a", "--option", "x"], "'x' is not KEY=VALUE"),
        (["--topic", "a", "--format", "csv"], "'csv' is not one of"),
        (["--topic", "a", "--schema", "a=xml"], "not raw, json, json:COLUMNS or json:@FILE"),
        (["--topic", "a", "--schema", "b=json"], "--schema is for topic b, which is not asked for"),
        (["--pattern", "a.*", "--schema", "b=json"], "--schema is for topic b, which is not asked for"),
        (["--topic", "a", "--schema", "a=json", "--schema", "a=raw"], "topic a has one already"),
        (["--topic", "a", "--upsert", "b"], "--upsert is for topic b, which is not asked for"),
        (["--topic", "a", "--upsert", "a", "--format", "parquet"], "--upsert needs a table whose rows can change"),
        (["--topic", "a", "--upsert-compacted", "--format", "parquet"], "--format delta or iceberg, not parquet"),
        (["--topic", "a", "--envelope", "a=avro"], "not TOPIC=debezium"),
        (["--topic", "a", "--envelope", "a=debezium"], "need a table of rows by key: --upsert a"),
        (["--topic", "a", "--upsert", "a", "--envelope", "a=debezium"], "it needs the schema of the row"),
        (
            ["--topic", "a", "--schema", "a=avro", "--format", "parquet"],
            "with avro, jsonschema or protobuf need --format delta",
        ),
        (["--topic", "a", "--schema", "a=avro"], "need --registry URL"),
        (["--topic", "a", "--keep-snapshots", "1"], "1 is not in the range x>=2"),
        *((["--topic", "t", "--partition-by", text], "--partition-by") for text in NO_PARTITIONING),
        (["--topic", "a b"], "'a b' is no topic's name"),
        (["--topic", ""], "'' is no topic's name"),
        (["--topic", ".."], "'..' is no topic's name"),
    ],
)
def test_what_makes_no_sense_is_refused_before_spark_starts(options: list[str], message: str) -> None:
    told = CliRunner().invoke(main, NEEDED + options)
    assert told.exit_code in (1, 2)
    assert message in told.output


@pytest.mark.parametrize(
    "option",
    [
        "subscribe=foo",
        "subscribePattern=.*",
        'ASSIGN={"t":[0]}',
        "startingOffsets=latest",
        "startingTimestamp=1",
        "startingOffsetsByTimestamp={}",
        "endingoffsets=latest",
        "failOnDataLoss=false",
        "maxOffsetsPerTrigger=1",
        "minPartitions=1",
        "includeHeaders=false",
        "kafka.bootstrap.servers=other:1",
        "Kafka.Isolation.Level=read_uncommitted",
        "kafka.auto.offset.reset=latest",
    ],
)
def test_options_that_the_job_owns_are_refused(option: str) -> None:
    told = CliRunner().invoke(
        main, [*NEEDED, "--topic", "t", "--option", "kafka.fetch.max.wait.ms=9", "--option", option]
    )
    assert told.exit_code == 2
    assert f"Error: --option {option.partition('=')[0]}: this is set by " in told.output


def test_options_that_the_job_does_not_own_reach_the_clients() -> None:
    cluster = ClusterAddress("b:1", {"kafka.Security.Protocol": "SSL", "KAFKA.client.id": "x", "groupIdPrefix": "g"})
    assert cluster.client_properties()["security.protocol"] == "SSL"
    assert cluster.client_properties()["client.id"] == "x"
    assert cluster.connector_options()["groupIdPrefix"] == "g"


NOISY = r"""
import subprocess, sys
from odradek_pipeline import log_lines
assert not log_lines.configure()
print("plain text", file=sys.stderr)
subprocess.run(["printf", r"of a child \377\n\n"], stdout=sys.stderr, check=True)
print('{"ts": "2026-01-01T00:00:00Z", "level": "WARN", "msg": "of Spark", "logger": "X"}', file=sys.stderr)
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)  # outlives this process, with its standard error
print(child.pid)
raise ValueError("crash")
"""


def test_standard_error_is_json_lines_whoever_writes_to_it() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, timeout=30, check=False)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 1
    events = [json.loads(line) for line in done.stderr.decode().splitlines()]
    crash = next(event for event in events if event["event"] == "the job has crashed")
    assert "ValueError: crash" in crash["exception"]
    assert [(event["event"], event["level"]) for event in events if event is not crash] == [
        ("plain text", "info"),
        ("of a child \ufffd", "info"),
        ("of Spark", "warning"),
    ]
    assert all("timestamp" in event for event in events)


def test_a_port_that_is_taken_is_one_clear_line(own_log: None) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        told = CliRunner().invoke(main, [*NEEDED, "--topic", "a", "--metrics-port", str(port)])
    assert told.exit_code == 1
    assert f"Error: --metrics-port {port}: " in told.output


@pytest.fixture
def own_log() -> Iterator[None]:
    """What a test makes of the process's log ends with it."""
    yield
    structlog.reset_defaults()


def _progress(end: object, latest: object, rows: int = 7, batch: int = 3) -> Any:
    source = SimpleNamespace(endOffset=_text(end), latestOffset=_text(latest))
    return SimpleNamespace(sources=[source], numInputRows=rows, batchDuration=1500, batchId=batch)


def _text(offsets: object) -> str:
    return "None" if offsets is None else json.dumps({"t": offsets})


def test_lag_is_what_is_left_of_each_partition() -> None:
    assert lag(_progress({"0": 5, "1": 9}, {"0": 8, "1": 9, "2": 4}), "t") == {"0": 3, "1": 0, "2": 4}
    assert lag(_progress({"0": 5}, {"0": 3}), "t") == {"0": 0}, "a topic that was made anew"
    assert lag(_progress(None, None), "t") == {}
    as_in_4_1 = _progress({}, {})
    as_in_4_1.sources[0].endOffset, as_in_4_1.sources[0].latestOffset = "{'t': {'0': 5}}", "{'t': {'0': 9}}"
    assert lag(as_in_4_1, "t") == {"0": 4}


def test_a_batch_is_counted_told_and_logged(own_log: None) -> None:
    stream = io.StringIO()
    reporter = configure(stream)
    assert reporter.bar is None, "no bar where there is no terminal"
    reporter.counted("counted", 7, 2, 3, {"a.b": 3, "c": 1})
    source = SimpleNamespace(endOffset='{"counted": {"0": 5}}', latestOffset='{"counted": {"0": 8}}')
    progress: Any = SimpleNamespace(sources=[source], numInputRows=7, batchDuration=1500, batchId=3)
    reporter.batch("counted", progress)
    reporter.failed("counted", "why", None)
    labels = {"topic": "counted"}
    assert REGISTRY.get_sample_value("odradek_lake_records_total", labels) == 7
    assert REGISTRY.get_sample_value("odradek_lake_dead_letters_total", labels) == 2
    assert REGISTRY.get_sample_value("odradek_lake_unknown_fields_total", labels) == 3
    assert REGISTRY.get_sample_value("odradek_lake_unknown_field_records_total", labels | {"field": "a.b"}) == 3
    assert REGISTRY.get_sample_value("odradek_lake_lag_offsets", labels | {"partition": "0"}) == 3
    assert REGISTRY.get_sample_value("odradek_lake_batch_seconds", labels) == 1.5
    assert REGISTRY.get_sample_value("odradek_lake_failures_total", labels) == 1
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(event["event"], event["level"]) for event in events] == [
        ("records went to the dead letters", "warning"),
        ("batch", "info"),
        ("query failed", "error"),
    ]
    assert (events[1]["batch"], events[1]["behind"], events[1]["records"]) == (3, 3, 7)


def test_the_log_goes_to_standard_error_as_it_is_when_it_is_set_up(
    own_log: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert not log_lines.configure()
    assert configure().bar is None
    structlog.get_logger().info("told")
    assert json.loads(stream.getvalue())["event"] == "told"


def test_the_bar_shows_what_is_done_and_what_is_left() -> None:
    class Bar:
        total = n = 0
        postfix: dict[str, int]

        def set_postfix(self, refresh: bool, **values: int) -> None:
            self.postfix = values

        def refresh(self) -> None: ...

        def close(self) -> None: ...

    reporter = Reporter(Bar())
    reporter.counted("t", 7, 0, 0)
    reporter.batch("t", _progress({"0": 7}, {"0": 10}))
    assert (reporter.bar.n, reporter.bar.total, reporter.bar.postfix) == (7, 10, {"topics": 1, "behind": 3})
