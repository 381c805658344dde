"""The data source's reader while a broker writes, compacts and deletes: no Spark between it and the test."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek import Broker
from odradek_pipeline.datasource import DataLossError
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from odradek_pipeline.datasource.splits import Split
from odradek_pipeline.datasource.stream import OdradekStreamReader
from tests.brokers import sound_broker
from tests.pipeline.consumed import consumed
from tests.pipeline.lakes import create_topic

SETTINGS = {
    "log.cleaner.backoff.ms": 50,
    "log.retention.check.interval.ms": 100,
    "log.initial.task.delay.ms": 0,
    "log.segment.delete.delay.ms": 100,
}
SECONDS = 60.0
"""How long the broker may take to compact or delete something, on a busy machine."""


@pytest.fixture(scope="module")
def busy_broker() -> Iterator[Broker]:
    with sound_broker(SETTINGS) as broker:
        yield broker


class Writer:
    """Writes numbered records until it is stopped; `acknowledged` counts those of each partition that are safe."""

    def __init__(self, broker: Broker, topic: str, *, keys: int | None = None, batch: int = 50) -> None:
        self.acknowledged: dict[int, int] = defaultdict(int)
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "acks": "all"})
        self._args = topic, keys, batch
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        topic, keys, batch = self._args
        for number in itertools.count():
            if self._stop.is_set():
                break
            key = None if keys is None else b"%d" % (number % keys)
            self._producer.produce(topic, b"%d" % number + b"." * 200, key, on_delivery=self._delivered)
            if number % batch == 0:
                self._producer.flush(30)
        assert self._producer.flush(30) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged[message.partition()] = message.offset() + 1


def rows(reader: Any, splits: list[Any]) -> list[dict[str, Any]]:
    return [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


def options(folder: Path, topic: str, **given: Any) -> SourceOptions:
    told = {name: str(value) for name, value in given.items()}
    return SourceOptions.parse({"path": str(folder), "topics": topic} | told)


def test_a_live_log_is_read_without_gaps_up_to_what_was_acknowledged(busy_broker: Broker, topic: str) -> None:
    create_topic(busy_broker.bootstrap_servers, topic, 2, internal_segment_bytes="500000", index_interval_bytes="1000")
    reader = OdradekReader(options(busy_broker.data_dir, topic, splitBytes=200_000), ("partition", "offset"))
    with Writer(busy_broker, topic) as writer:
        began = time.monotonic()
        while time.monotonic() < began + 3:
            safe = dict(writer.acknowledged)
            offsets: dict[int, list[int]] = defaultdict(list)
            for row in rows(reader, reader.partitions()):
                offsets[row["partition"]].append(row["offset"])
            for partition, found in offsets.items():
                assert found == list(range(len(found)))
                assert len(found) >= safe.get(partition, 0)
    assert sum(writer.acknowledged.values()) > 100


def test_a_live_stream_delivers_every_record_once(busy_broker: Broker, topic: str) -> None:
    create_topic(busy_broker.bootstrap_servers, topic, 2, internal_segment_bytes="500000")
    settings = options(busy_broker.data_dir, topic, startingOffsets="earliest", splitBytes=200_000)
    names = ("partition", "offset", "value")
    reader = OdradekStreamReader(settings, names)
    position = reader.initialOffset()
    found = []
    with Writer(busy_broker, topic) as writer:
        began = time.monotonic()
        while time.monotonic() < began + 3:
            end = reader.latestOffset()
            found += rows(reader, reader.partitions(position, end))
            reader.commit(end)
            position = end
    end = reader.latestOffset()
    found += rows(reader, reader.partitions(position, end))
    delivered = sorted((row["partition"], row["offset"], row["value"]) for row in found)
    assert delivered == [
        (*one[:2], one[3]) for one in consumed(busy_broker.bootstrap_servers, topic, 2, "read_committed")
    ]
    assert len(delivered) == sum(writer.acknowledged.values())


def test_a_log_that_is_being_compacted_keeps_the_last_value_of_every_key(busy_broker: Broker, topic: str) -> None:
    create_topic(
        busy_broker.bootstrap_servers,
        topic,
        cleanup_policy="compact",
        internal_segment_bytes="500000",
        index_interval_bytes="500",
        min_cleanable_dirty_ratio="0.01",
    )
    reader = OdradekReader(options(busy_broker.data_dir, topic, splitBytes=200_000), ("offset", "key"))
    holes = 0
    with Writer(busy_broker, topic, keys=100) as writer:
        began = time.monotonic()
        while not holes or time.monotonic() < began + 5:
            assert time.monotonic() < began + SECONDS, "nothing was compacted"
            splits = reader.partitions()
            time.sleep(0.05)  # for the cleaner to get ahead of the plan
            found = rows(reader, splits)
            offsets = [row["offset"] for row in found]
            assert offsets == sorted(set(offsets))
            assert all(int(row["key"]) == row["offset"] % 100 for row in found)
            holes += len(offsets) < (offsets[-1] if offsets else 0)
    end = writer.acknowledged[0]
    last = [row["offset"] for row in rows(reader, reader.partitions())]
    assert last[-100:] == list(range(end - 100, end))


def start_of(reader: OdradekReader) -> int:
    split = reader.partitions()[0]
    assert isinstance(split, Split)
    return split.pieces[0].start


def test_a_log_that_retention_shortens_is_read_from_where_it_starts(busy_broker: Broker, topic: str) -> None:
    create_topic(busy_broker.bootstrap_servers, topic, internal_segment_bytes="500000", retention_bytes="1000000")
    strict = OdradekReader(options(busy_broker.data_dir, topic), ("offset",))
    lenient = OdradekReader(options(busy_broker.data_dir, topic, failOnDataLoss="false"), ("offset",))
    with Writer(busy_broker, topic) as writer:
        began = time.monotonic()
        starts: set[int] = set()
        while len(starts) < 2 or time.monotonic() < began + 4:
            assert time.monotonic() < began + SECONDS, "retention did nothing"
            safe = writer.acknowledged[0]
            offsets = [row["offset"] for row in rows(lenient, lenient.partitions())]
            if offsets:
                assert offsets == sorted(set(offsets))
                assert offsets[-1] + 1 >= safe
                starts.add(offsets[0])
        splits = strict.partitions()
        old_end = writer.acknowledged[0]
        deadline = time.monotonic() + SECONDS
        while start_of(lenient) <= old_end:
            assert time.monotonic() < deadline, "retention did nothing"
            time.sleep(0.05)
    with pytest.raises(DataLossError, match="cannot be read: the log starts at offset"):
        rows(strict, splits)
