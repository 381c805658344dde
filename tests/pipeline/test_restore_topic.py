"""`odradek-pipeline restore --bootstrap`: into topics of running clusters, with a map of offsets that groups follow."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic, produce
from tests.pipeline.test_restore import ORDERS, committed, fill
from tests.unit.pipeline.audited import TOPIC, audit, rows, write
from tests.unit.pipeline.restored import broker_folder, restore

JOB = [sys.executable, "-m", "odradek_pipeline", "restore"]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[tuple[Any, ...]]]]:
    """The folder of a broker that was killed, and what its consumers saw."""
    folder = tmp_path_factory.mktemp("restore") / "old"
    with Broker({"log.dirs": str(folder), "flush.messages": 1}, profile="dev") as broker:
        fill(broker.bootstrap_servers)
        records = consumed(broker.bootstrap_servers, ORDERS, 2, "read_committed")
        broker.kill()
    yield folder, records


def contents(records: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    """By partition, the records without their offsets."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for partition, _, *rest in records:
        found.setdefault(partition, []).append(tuple(rest))
    return found


def pairs(path: Path) -> dict[tuple[int, int], int]:
    """Old place to new offset, as the map says."""
    found = {}
    for row in pq.read_table(path).to_pylist():
        for at in range(row["last"] - row["first"] + 1):
            found[row["partition"], row["first"] + at] = row["new_first"] + at
    return found


def test_a_topic_gets_all_records_a_map_and_its_groups(
    old: tuple[Path, list[tuple[Any, ...]]], broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder, records = old
    asked = ("--from-data", folder, "--topic", ORDERS, "--bootstrap", broker.bootstrap_servers, "--into-topic", topic)
    table = tmp_path / "map.parquet"
    status, result = restore(*asked, "--map", table, "--groups", "all")
    assert (status, sum(found["records"] for found in result["partitions"])) == (0, 540)
    there = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    assert contents(there) == contents(records)
    places = pairs(table)
    assert [(number, places[number, at]) for number, at, *_ in records] == [(one[0], one[1]) for one in there]
    group = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    moved = group.committed([TopicPartition(topic, number) for number in range(2)], timeout=30)
    # the group of partition 1 had read the first 250 records and a transaction's 10, and then stood on its marker
    assert [place.offset for place in moved] == [123, 260]
    group.close()
    sides = ("--topic", ORDERS, "--data", folder, "--against-bootstrap", broker.bootstrap_servers, "--map", table)
    assert audit(*sides)[0] == 0
    status, again = restore(*asked, "--map", table, "--groups", "readers")
    assert (status, [found["found"] for found in again["partitions"]]) == (0, [270, 270])
    assert again["groups"] == result["groups"]
    assert consumed(broker.bootstrap_servers, topic, 2, "read_committed") == there
    produce(broker.bootstrap_servers, topic, [b"somebody else's"], key=b"k")
    status, found = audit(*sides)
    assert (status, sum(one["extra"]["count"] for one in found["partitions"])) == (1, 1)


def test_a_restore_that_is_killed_goes_on_where_it_was(own_broker: Broker, tmp_path: Path) -> None:
    source = tmp_path / "source"
    with Broker({"log.dirs": str(source)}, profile="dev") as broker:
        create_topic(broker.bootstrap_servers, ORDERS, 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
        for number in range(120_000):
            producer.produce(ORDERS, b"%d" % number, partition=number % 2, on_delivery=None)
            if not number % 10_000:
                producer.poll(0)
        assert producer.flush(120) == 0
    asked = ["--from-data", str(source), "--topic", ORDERS, "--bootstrap", own_broker.bootstrap_servers]
    asked += ["--map", str(tmp_path / "map.parquet")]
    watcher = Consumer({"bootstrap.servers": own_broker.bootstrap_servers, "group.id": "watcher"})
    job = subprocess.Popen([*JOB, *asked], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while job.poll() is None and time.monotonic() < deadline and not _count(watcher):
            time.sleep(0.05)
    finally:
        job.kill()
        job.wait()
    own_broker.kill()
    own_broker.start()
    watcher.close()
    watcher = Consumer({"bootstrap.servers": own_broker.bootstrap_servers, "group.id": "watcher"})
    before = _count(watcher)
    watcher.close()
    assert not (tmp_path / "map.parquet").exists() or before == 120_000
    status, result = restore(*asked)
    assert (status, sum(found["records"] for found in result["partitions"])) == (0, 120_000)
    assert 0 < sum(found["found"] for found in result["partitions"]) == before
    values = [value for _, _, _, value, *_ in consumed(own_broker.bootstrap_servers, ORDERS, 2, "read_committed")]
    assert values == [b"%d" % number for first in (0, 1) for number in range(first, 120_000, 2)]


def _count(consumer: Consumer) -> int:
    """How many records the topic has."""
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(ORDERS, number), 5)[1] for number in range(2))
    except Exception:  # noqa: BLE001  it is not there yet
        return 0


def test_rows_of_a_table_become_a_topic_that_an_audit_finds_whole(broker: Broker, topic: str, tmp_path: Path) -> None:
    table, places = write(tmp_path / "table", rows()), tmp_path / "map.parquet"
    asked = ("--from-table", table, "--topic", TOPIC, "--bootstrap", broker.bootstrap_servers, "--into-topic", topic)
    assert restore(*asked, "--map", places)[0] == 0
    there = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    expected = [(row["partition"], row["key"], row["value"]) for row in rows()]
    assert [(one[0], one[2], one[3]) for one in there] == expected
    sides = ("--topic", topic, "--bootstrap", broker.bootstrap_servers, "--table", table)
    assert audit(*sides, "--map", places, "--up-to", "end")[0] == 0
    assert restore(*asked, "--map", places)[1]["partitions"][0]["found"] == 25


def test_a_topic_with_other_records_is_refused_and_gets_none(broker: Broker, topic: str, tmp_path: Path) -> None:
    create_topic(broker.bootstrap_servers, topic, 2)
    produce(broker.bootstrap_servers, topic, [b"other"], key=b"k")
    before = consumed(broker.bootstrap_servers, topic, 2, "read_committed")
    data = broker_folder(tmp_path / "data")
    asked = ("--from-data", data, "--topic", TOPIC, "--bootstrap", broker.bootstrap_servers, "--into-topic", topic)
    status, result = restore(*asked, "--map", tmp_path / "map.parquet")
    assert (status, "nothing was written" in result["text"]) == (2, True)
    assert consumed(broker.bootstrap_servers, topic, 2, "read_committed") == before
    assert not list(tmp_path.glob("map.parquet*"))


@pytest.mark.parametrize(
    ("partitions", "config", "word"),
    [
        (1, {}, "are needed"),
        (2, {"cleanup_policy": "compact"}, "is compacted"),
        (2, {"message_timestamp_type": "LogAppendTime"}, "message.timestamp.type"),
    ],
)
def test_a_topic_that_does_not_fit_is_refused(
    broker: Broker, topic: str, tmp_path: Path, partitions: int, config: dict[str, str], word: str
) -> None:
    create_topic(broker.bootstrap_servers, topic, partitions, **config)
    data = broker_folder(tmp_path / "data")
    asked = ("--from-data", data, "--topic", TOPIC, "--bootstrap", broker.bootstrap_servers, "--into-topic", topic)
    status, result = restore(*asked, "--map", tmp_path / "map.parquet")
    assert (status, word in result["text"]) == (2, True), result


def test_a_group_with_members_is_told_and_moved_later(
    old: tuple[Path, list[tuple[Any, ...]]], broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder, _ = old
    asked = ("--from-data", folder, "--topic", ORDERS, "--bootstrap", broker.bootstrap_servers, "--into-topic", topic)
    create_topic(broker.bootstrap_servers, f"{topic}-other")
    member = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    member.subscribe([f"{topic}-other"])
    deadline = time.monotonic() + 60
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.2)
    status, result = restore(*asked, "--map", tmp_path / "map.parquet", "--groups", "readers", "--groups", "nobody")
    errors = {group["group"]: group["error"] for group in result["groups"]}
    assert (status, "end its members" in errors["readers"], "no offsets" in errors["nobody"]) == (1, True, True)
    member.close()
    assert restore(*asked, "--map", tmp_path / "map.parquet", "--groups", "readers")[0] == 0


def test_groups_of_the_same_topic_in_the_same_cluster_are_moved_once(tmp_path: Path) -> None:
    with Broker({"log.dirs": str(tmp_path / "data")}, profile="dev") as broker:
        fill(broker.bootstrap_servers)
        bootstrap = broker.bootstrap_servers
        records = tmp_path / "records"
        assert committed(bootstrap) == [123, 261]
        _export(bootstrap, records)
        into = ("--bootstrap", bootstrap, "--into-topic", f"{ORDERS}-2", "--map", tmp_path / "map.parquet")
        asked = ("--from-table", records, "--topic", ORDERS, *into, "--groups", "all")
        status, first = restore(*asked)
        assert (status, first["groups"][0]["offsets"]) == (0, {"0": [123, 123], "1": [261, 260]})
        assert restore(*asked)[1]["groups"] == first["groups"]


def _export(bootstrap: str, folder: Path) -> None:
    found = [
        {
            "partition": number,
            "offset": offset,
            "timestamp": when[1] * 1000,
            "key": key,
            "headers": [{"key": name, "value": value} for name, value in headers],
            "value": content,
        }
        for number, offset, key, content, headers, when in consumed(bootstrap, ORDERS, 2, "read_committed")
    ]
    write(folder, found)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (("--from-data", "x", "--topic", "t"), "--into-data or --bootstrap"),
        (("--from-data", "x", "--into-data", "y", "--groups", "all"), "--groups goes with --bootstrap"),
        (("--from-data", "x", "--topic", "t", "--bootstrap", "127.0.0.1:1"), "give --map"),
        (("--into-data", "y"), "--from-data (or --from-tier), --from-lake and --from-table"),
        (("--from-table", "x", "--into-data", "y"), "one --topic"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: tuple[str, ...], word: str) -> None:
    status, result = restore(*given)
    assert (status, word in result["text"]) == (2, True), result
