"""Has a running Apache Kafka compact a topic; keeps its segments, before and after, for test_compaction_of_kafka.

python -m tools.recorders.record_compaction 127.0.0.1:19092 KAFKA_DATA_FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.unit.storage.cleaner.test_compaction_of_kafka import FOLDER, RETENTION_MS

SEGMENT_MS = 1000
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": str(RETENTION_MS),
    "segment.ms": str(SEGMENT_MS),
    "index.interval.bytes": "200",
    "file.delete.delay.ms": "1",
    "min.compaction.lag.ms": "3600000000",
}
Pairs = list[tuple[str, str | None]]


class Recorder:
    """One topic with one partition. Timestamps say when a segment is full: `roll` makes the next batch open one."""

    def __init__(self, servers: str, data: Path) -> None:
        self._servers = servers
        self.topic = f"compaction-{time.time_ns()}"
        self.folder = data / f"{self.topic}-0"
        self._data = data
        self._admin = AdminClient({"bootstrap.servers": servers})
        created = self._admin.create_topics([NewTopic(self.topic, 1, 1, config=CONFIG)])
        created[self.topic].result(20)
        self._time = int(time.time() * 1000)
        self._plain = {name: self._producer(**{"compression.type": name}) for name in ("none", "gzip", "lz4", "zstd")}
        self._plain["snappy"] = self._producer(**{"compression.type": "snappy"})

    def _producer(self, **options: object) -> Producer:
        return Producer({"bootstrap.servers": self._servers, "linger.ms": 100} | options)

    def put(self, pairs: Pairs, compression: str = "none") -> None:
        self._send(self._plain[compression], pairs)

    def _send(self, producer: Producer, pairs: Pairs) -> None:
        for key, value in pairs:
            self._time += 1
            producer.produce(self.topic, key=key, value=value, timestamp=self._time)
        assert producer.flush(20) == 0

    def idempotent(self, groups: list[Pairs]) -> None:
        producer = self._producer(**{"enable.idempotence": True})
        for pairs in groups:
            self._send(producer, pairs)

    def transaction(self, groups: list[Pairs], *, commit: bool) -> None:
        producer = self._producer(**{"transactional.id": f"{self.topic}-{time.time_ns()}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        for pairs in groups:
            self._send(producer, pairs)
        producer.commit_transaction(20) if commit else producer.abort_transaction(20)

    def roll(self) -> None:
        self._time += SEGMENT_MS + 1

    def compact(self, name: str) -> None:
        """Seal all, copy it, have it compacted, and copy what became of it."""
        self.roll()
        self.put([("active", name)])
        time.sleep(1)
        cleaned_to = self._cleaned_to()
        shutil.copytree(self.folder, FOLDER / name / "before", ignore=_all_but_logs)
        self._lag(0)
        while self._cleaned_to() == cleaned_to:
            time.sleep(0.02)
        now_ms = int(time.time() * 1000)
        self._lag(3_600_000_000)
        time.sleep(1)
        shutil.copytree(self.folder, FOLDER / name / "after", ignore=_all_but_logs)
        (FOLDER / name / "facts.json").write_text(json.dumps({"cleaned_to": cleaned_to, "now_ms": now_ms}) + "\n")

    def _lag(self, lag_ms: int) -> None:
        entry = ConfigEntry("min.compaction.lag.ms", str(lag_ms), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(20)

    def _cleaned_to(self) -> int | None:
        for line in (self._data / "cleaner-offset-checkpoint").read_text().splitlines():
            if line.startswith(f"{self.topic} 0 "):
                return int(line.split()[2])
        return None


def _all_but_logs(_: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".log")]


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    kafka = Recorder(sys.argv[1], Path(sys.argv[2]))
    kafka.put([("a", "1"), ("b", "1"), ("c", None)])
    for name in ("gzip", "snappy", "lz4", "zstd"):
        kafka.put([("a", name), (f"own {name}", "x" * 200), ("b", name)], name)
    kafka.roll()
    kafka.idempotent([[("i", "1"), ("j", "1")], [("i", "2")], [("i", "3")]])
    kafka.put([("i", "4")])
    kafka.roll()
    kafka.transaction([[("t", "1"), ("u", "1")], [("t", "2")]], commit=True)
    kafka.transaction([[("v", "aborted"), ("a", "aborted")], [("w", "aborted")]], commit=False)
    kafka.put([("d", "1"), ("d", None), ("e", "1")])
    kafka.transaction([[("only", "1")]], commit=True)
    kafka.put([("only", "2")])
    kafka.put([("superseded", "1")])
    kafka.roll()
    kafka.put([("superseded", "2"), ("f", "1")])
    kafka.put([("f", "2")])
    kafka.compact("first")
    kafka.put([("f", "3"), ("g", None)])
    time.sleep(RETENTION_MS / 1000)
    kafka.compact("second")
    kafka.roll()
    kafka.transaction([[("t", "3")]], commit=False)
    kafka.put([("g", "1")])
    time.sleep(RETENTION_MS / 1000)
    kafka.compact("third")


if __name__ == "__main__":
    main()
