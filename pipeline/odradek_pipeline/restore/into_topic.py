"""Into a topic of a running cluster, with a map of offsets, since brokers assign these themselves.

What the topic has already must be the beginning of what is restored: then a restore that was killed goes on behind it,
and one that is complete writes nothing. Anything else in it is refused. An idempotent producer keeps the order in a
partition, and its delivery reports tell the new offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek_pipeline.audit.broker_topic import TIMEOUT_S, BrokerTopic, broker_client
from odradek_pipeline.audit.findings import Findings
from odradek_pipeline.audit.prints import Longs, Prints, combined, longs, prints_of
from odradek_pipeline.audit.report import partition_line
from odradek_pipeline.audit.sides import COMPARED, AuditError, Topic
from odradek_pipeline.audit.topic_table import OffsetMap
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.folders import Folders
from odradek_pipeline.restore.groups import GroupMove, commits_at, commits_in_folders
from odradek_pipeline.restore.into_data import CommittedLog, Source
from odradek_pipeline.restore.map_writer import MapWriter

CREATED = {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_QUEUE = 50_000
_PRODUCER = {
    "enable.idempotence": "true",
    "linger.ms": "20",
    "batch.size": "1000000",
    "message.max.bytes": "1000000000",
    "queue.buffering.max.messages": str(2 * _QUEUE),
    "queue.buffering.max.kbytes": "65536",
}


@dataclass(slots=True)
class Copied:
    """A partition: `records` in all, `found` of them there already. `untimed`: with times that clients cannot send."""

    partition: int
    records: int = 0
    found: int = 0
    untimed: int = 0

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("partition", "records", "found", "untimed")}


def restored_into(
    source: Source,
    topic: str,
    bootstrap: str,
    *,
    new_topic: str,
    map_path: Path,
    config: Mapping[str, str],
    compression: str,
    groups: Sequence[str],
    groups_bootstrap: str | None,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Write the topic and its map, compare, and move the groups. Raises AuditError, OSError."""
    records = source.topic(topic)
    done = IntoTopic(records, bootstrap, new_topic, config, compression, progress).run(map_path)
    offsets = OffsetMap.read(str(map_path), topic) if any(one.records for one in done) else OffsetMap({})
    restored = BrokerTopic(bootstrap, new_topic, config)
    found = {one.partition: one for one in source.audit(topic, restored, offsets)}
    moved = []
    if groups:
        if groups_bootstrap is None and isinstance(source, Folders) and source.roots:
            commits = commits_in_folders(source.roots, topic)
        else:
            commits = commits_at(groups_bootstrap or bootstrap, config, topic, groups)
        plan = map_path.with_name(f"{map_path.name}.groups.json")
        moved = GroupMove(bootstrap, config, new_topic, plan).run(commits, groups, offsets)
    partitions = []
    for one in done:
        log = source.log(TopicPartition(topic, one.partition))
        partitions.append(one.to_json() | _differences(log, found.get(one.partition)))
    return {
        "ok": all(one["ok"] for one in partitions) and not any(group["error"] for group in moved),
        "from": source.name,
        "into": f"{new_topic} at {bootstrap}",
        "map": str(map_path),
        "partitions": partitions,
        "groups": moved,
    }


def _differences(log: CommittedLog, found: Findings | None) -> dict[str, Any]:
    """What is wrong in a partition: lost in the source, or not as it was."""
    differences = [] if found is None or not found.faults else [partition_line(found.to_json())]
    return {
        "topic": log.partition.topic,
        "lost": log.lost.to_json(),
        "damage": log.damage,
        "differences": differences,
        "open_transactions": log.open_transactions,
        "ok": not differences and not log.lost.count,
    }


@dataclass(slots=True)
class IntoTopic:
    """`bootstrap` is the cluster, `config` librdkafka's settings for it."""

    source: Topic
    bootstrap: str
    new_topic: str
    config: Mapping[str, str] = field(default_factory=dict)
    compression: str = "zstd"
    progress: Callable[[int], None] = lambda _: None

    def run(self, map_path: Path) -> list[Copied]:
        """Write what is missing, and the map. Raises AuditError, OSError."""
        extents = self.source.extents()
        self._make_topic(max(extents) + 1)
        target = BrokerTopic(self.bootstrap, self.new_topic, self.config)
        there = target.extents()
        writing = MapWriter(map_path, self.source.name, self.new_topic)
        try:
            rest = {number: self._begun(number, target, there[number].end, None) for number in sorted(extents)}
            done = []
            for number in sorted(extents):
                if there[number].end > there[number].start:
                    self._begun(number, target, there[number].end, writing)
                done.append(self._copy(number, *rest[number], writing))
            writing.close()
        except BaseException:
            writing.discard()
            raise
        return done

    # -- the topic

    def _make_topic(self, partitions: int) -> None:
        """Create it, unless it is there and fit. Raises AuditError."""
        admin = AdminClient(broker_client(self.bootstrap, self.config))
        try:
            known = admin.list_topics(timeout=TIMEOUT_S).topics.get(self.new_topic)
            if known is None:
                new = NewTopic(self.new_topic, partitions, -1, config=CREATED)
                admin.create_topics([new])[self.new_topic].result(TIMEOUT_S)
                return
        except KafkaException as error:
            raise AuditError(f"The brokers at {self.bootstrap}: {error}") from error
        if len(known.partitions) < partitions:
            raise AuditError(
                f"{self.new_topic} has {len(known.partitions)} partitions, and {partitions} are needed, since keys "
                "belong to partitions: create it with as many, or let restore create it."
            )
        target = BrokerTopic(self.bootstrap, self.new_topic, self.config)
        if target.setting("message.timestamp.type") != "CreateTime":
            raise AuditError(
                f"{self.new_topic} gives records its own time: set message.timestamp.type=CreateTime first."
            )
        if "compact" in target.setting("cleanup.policy"):
            raise AuditError(
                f"{self.new_topic} is compacted, so records would go while they are compared: set cleanup.policy="
                "delete, and compact again afterwards."
            )

    # -- what is there already

    def _begun(self, number: int, target: BrokerTopic, end: int, writing: MapWriter | None) -> tuple[int, int]:
        """(how many records are there, the old offset to go on at). With `writing` the map gets them.

        Raises AuditError if they are not the beginning of the source's.
        """
        extent = self.source.extents()[number]
        start = target.extents()[number].start
        if start == end:
            return 0, extent.start
        if start:
            raise AuditError(f"{self.new_topic}-{number} has lost its first records: begin with a new topic.")
        wanted = _Stream(self.source, number, extent.start, extent.end)
        count, next_old = 0, extent.start
        for part in target.read(number, start, end, COMPARED):
            new = longs(part.records.column("offset"))
            if not len(new):
                continue
            old, prints = wanted.take(len(new))
            if len(old) < len(new) or not np.array_equal(prints, _prints(part.records)):
                raise AuditError(
                    f"{self.new_topic}-{number} has other records than the source begins with, at offsets {new[0]} to "
                    f"{new[-1]}: nothing was written. Restore into a new topic."
                )
            count, next_old = count + len(new), int(old[-1]) + 1
            if writing is not None:
                writing.add(number, old, new)
        return count, next_old

    # -- what is missing

    def _copy(self, number: int, found: int, start: int, writing: MapWriter) -> Copied:
        done = Copied(number, found, found)
        sent: deque[int] = deque()
        problems: list[KafkaError] = []
        pairs: tuple[list[int], list[int]] = [], []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                problems.append(error)
                return
            offset = message.offset()
            if offset is None or offset < 0:
                problems.append(KafkaError(KafkaError._FAIL, "the broker has not told its offset"))
                return
            pairs[0].append(sent.popleft())
            pairs[1].append(offset)

        client = broker_client(self.bootstrap, self.config) | _PRODUCER | {"compression.type": self.compression}
        producer = Producer(client)
        for part in self.source.read(number, start, self.source.extents()[number].end, COMPARED):
            for offset, millis, key, value, headers in _rows(part.records):
                if millis <= 0:
                    done.untimed += 1
                sent.append(offset)
                self._produce(producer, delivered, number, key, value, headers, max(millis, 0))
            producer.poll(0)
            self._noted(number, pairs, problems, writing)
            done.records += part.records.num_rows
            self.progress(part.records.num_rows)
        while producer.flush(TIMEOUT_S):
            self._noted(number, pairs, problems, writing)
        self._noted(number, pairs, problems, writing)
        return done

    def _produce(
        self, producer: Producer, delivered: Any, number: int, key: Any, value: Any, headers: Any, millis: int
    ) -> None:
        while True:
            try:
                producer.produce(
                    self.new_topic, value, key, number, on_delivery=delivered, timestamp=millis, headers=headers
                )
            except BufferError:
                producer.poll(1.0)
            except KafkaException as error:
                raise AuditError(f"{self.new_topic}-{number}: {error}") from error
            else:
                return

    def _noted(
        self, number: int, pairs: tuple[list[int], list[int]], problems: list[KafkaError], writing: MapWriter
    ) -> None:
        if problems:
            raise AuditError(
                f"{self.new_topic}-{number}: a record was not taken: {problems[0].str()}. Once that is mended, repeat "
                "the restore: it goes on behind what is there."
            )
        writing.add(number, np.array(pairs[0], np.int64), np.array(pairs[1], np.int64))
        for column in pairs:
            column.clear()


class _Stream:
    """The source's records of a partition, so many at a time, as (offsets, prints)."""

    def __init__(self, source: Topic, number: int, start: int, end: int) -> None:
        self._parts = source.read(number, start, end, COMPARED)
        self._offsets = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)

    def take(self, count: int) -> tuple[Longs, Prints]:
        while len(self._offsets) < count and (part := next(self._parts, None)) is not None:
            self._offsets = np.concatenate((self._offsets, longs(part.records.column("offset"))))
            self._hashes = np.concatenate((self._hashes, _prints(part.records)))
        taken = self._offsets[:count], self._hashes[:count]
        self._offsets, self._hashes = self._offsets[count:], self._hashes[count:]
        return taken


def _prints(records: pa.RecordBatch) -> Prints:
    return combined({name: prints_of(records.column(name)) for name in COMPARED}, records.num_rows)


def _rows(records: pa.RecordBatch) -> Iterator[tuple[int, int, Any, Any, list[tuple[str, bytes | None]]]]:
    """(offset, milliseconds, key, value, headers) of each record."""
    times = records.column("timestamp").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1000
    columns = (records.column(name).to_pylist() for name in ("key", "value", "headers"))
    offsets = records.column("offset").to_pylist()
    for offset, millis, key, value, headers in zip(offsets, times.tolist(), *columns, strict=True):
        yield offset, millis, key, value, [(one["key"], one["value"]) for one in headers or ()]
