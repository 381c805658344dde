"""`odradek-pipeline audit --insight`: throughput, skew, hot keys, lag over time and dead consumers of a topic."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from click.testing import CliRunner

from odradek_pipeline.audit import insight
from odradek_pipeline.audit.insight import HotKeys, Timeline
from odradek_pipeline.commands.audit import command
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.storage.support import NOW, Rig, append

HOUR = 3_600_000
START = NOW - 5 * HOUR
TOPIC = "orders"


def commit(group: str, offset: int, millis: int, partition: int = 0) -> Record:
    """A record of `__consumer_offsets` (Kafka's OffsetCommitKey and -Value)."""
    names = b"".join(struct.pack(">h", len(name)) + name for name in (group.encode(), TOPIC.encode()))
    value = struct.pack(">hqihq", 3, offset, -1, 0, millis)
    return Record(0, millis, struct.pack(">h", 1) + names + struct.pack(">i", partition), value)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five hours of a topic: ten records an hour in partition 0, two of them of key `hot`, and forty in partition 1."""
    root = tmp_path_factory.mktemp("insight") / "data"
    rig = Rig(OsFileSystem(), LogConfig(), str(root))
    offsets = rig.log("__consumer_offsets", 0)
    for hour in range(5):
        for partition, count in ((0, 10), (1, 40)):
            some = [
                Record(at, START + hour * HOUR, b"hot" if at < 2 else b"%d-%d" % (hour, at), b"x" * 100)
                for at in range(count)
            ]
            append(rig.log(TOPIC, partition), memoryview(build_batch(some)))
        commits = [commit("fast", 10 * hour + 10, START + hour * HOUR + 1000)]
        commits += [commit("gone", 7, START + 1000)] if not hour else []
        for one in commits:
            append(offsets, memoryview(build_batch([one])))
    rig.manager.close()
    return root


def look(*arguments: object) -> tuple[int, Any]:
    asked = CliRunner().invoke(command, ["--insight", *map(str, arguments), "--json", "-"], catch_exceptions=False)
    return asked.exit_code, json.loads(asked.output) if asked.output.startswith("{") else asked.output


def test_skew_hot_keys_and_a_dead_consumer_are_found(data: Path) -> None:
    status, found = look("--topic", TOPIC, "--data", data)
    assert status == 0
    assert [(one["records"], one["start"], one["end"]) for one in found["partitions"]] == [(50, 0, 50), (200, 0, 200)]
    assert (found["records"], found["skew"]) == (250, pytest.approx(1.6, abs=0.02))
    assert found["keys"][0] == {"key": "hot", "count": 20, "share": 0.08}
    assert found["keys_counted_too_low_by"] == 0
    assert [(one["group"], one["lag"], one["dead"]) for one in found["groups"]] == [
        ("fast", 0, False),
        ("gone", 43, True),
    ]


def test_the_tables_have_throughput_and_lag_over_time(data: Path, tmp_path: Path) -> None:
    assert look("--topic", TOPIC, "--data", data, "--parquet", tmp_path / "tables")[0] == 0
    tables = {path.stem: pq.read_table(path).to_pylist() for path in (tmp_path / "tables").iterdir()}
    assert set(tables) == {"partitions", "throughput", "keys", "lag", "groups"}
    own = [row for row in tables["throughput"] if row["partition"] == 0]
    assert [(row["records"], row["last"]) for row in own] == [(10, 10 * hour + 9) for hour in range(5)]
    assert sum(row["bytes"] for row in tables["throughput"]) == sum(row["bytes"] for row in tables["partitions"])
    lag = {(row["group"], row["committed"]): row["lag"] for row in tables["lag"]}
    assert lag == {("gone", 7): 3} | {("fast", 10 * hour + 10): 0 for hour in range(5)}
    assert tables["groups"][1]["dead"] is True


def test_the_page_has_the_plots_and_needs_nothing_from_outside(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert look("--topic", TOPIC, "--data", data, "--html", page)[0] == 0
    text = page.read_text()
    assert text.count("<svg") == 4
    assert "group gone is dead: it lags by 43" in text
    assert "the largest has 1.60 times the mean" in text
    assert not any(mark in text for mark in ("<script", "src=", "<link", "@import", "url(http"))


@pytest.mark.filterwarnings("error")
def test_keys_are_shown_escaped_whatever_their_bytes_say(tmp_path: Path) -> None:
    """Those of a registry's schema begin with its id, and no `$` is a formula of matplotlib's."""
    rig = Rig(OsFileSystem(), LogConfig(), str(tmp_path / "data"))
    keys = [b"\0\0\0\0\1\x1b[31m", b"$\\frac{$"]
    append(rig.log(TOPIC, 0), memoryview(build_batch([Record(at, START, key, b"x") for at, key in enumerate(keys)])))
    rig.manager.close()
    asked = ("--topic", TOPIC, "--data", tmp_path / "data", "--html", tmp_path / "page.html")
    told = CliRunner().invoke(command, ["--insight", *map(str, asked)], catch_exceptions=False)
    assert (told.exit_code, r"\x00\x00\x00\x00\x01\x1b[31m, has 50.0 %" in told.output) == (0, True)
    page = (tmp_path / "page.html").read_text()
    assert r"\x01\x1b[31m" in page
    assert r"$\frac{$" in page


def test_a_topic_without_records_or_groups_has_a_page_too(tmp_path: Path) -> None:
    rig = Rig(OsFileSystem(), LogConfig(), str(tmp_path / "data"))
    rig.log(TOPIC, 0)
    rig.manager.close()
    status, found = look("--topic", TOPIC, "--data", tmp_path / "data", "--html", tmp_path / "page.html")
    assert (status, found["records"], found["groups"], found["keys"]) == (0, 0, [], [])
    assert "0 records" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("more", [("--against-data", "x"), ("--replicas", "x"), ("--lake", "x")])
def test_another_side_is_refused(data: Path, more: tuple[str, str]) -> None:
    status, text = look("--topic", TOPIC, "--data", data, *more)
    assert (status, "give no other side" in text) == (2, True)


def test_a_timeline_keeps_its_sums_while_its_buckets_become_wider() -> None:
    line = Timeline(lambda one, other: one + other)
    for number in range(10_000):
        line.add("row", number * 60_000, 1)
    assert sum(line.rows["row"].values()) == 10_000
    assert len(line.rows["row"]) <= insight.MOST_BUCKETS
    assert line.width * insight.MOST_BUCKETS >= 10_000 * 60_000


def test_times_far_apart_take_no_more_memory() -> None:
    line = Timeline(lambda one, other: one + other)
    for millis in (-(10**15), 0, 10**15, *range(0, 10**6, 1000)):
        line.add(0, millis, 1)
    assert sum(line.rows[0].values()) == 1_003
    assert len(line.rows[0]) <= insight.MOST_BUCKETS


def test_counts_of_frequent_keys_are_too_low_by_the_told_error_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "KEYS", 20)
    rng = random.Random(1)
    drawn = [b"%d" % min(int(rng.paretovariate(0.7)), 10_000) for _ in range(20_000)]
    keys, true = HotKeys(), Counter(drawn)
    for at in range(0, len(drawn), 500):
        keys.add(pa.array(drawn[at : at + 500], pa.binary()))
    assert keys.error
    assert len(keys.counts) <= 40 + 500
    for key, count in true.items():
        assert 0 <= count - keys.counts.get(key, 0) <= keys.error
