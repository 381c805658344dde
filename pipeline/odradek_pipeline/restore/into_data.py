"""Into a data folder of a stopped broker, with the offsets as they were.

An empty folder gets all that a data folder or a backup has: the metadata of its cluster, and each batch as it was, with
its producer, its transaction and its leader epoch. Into the folder of another cluster, where the topic was created and
is empty, go the committed records alone, at their offsets: producers, transactions and epochs belong to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from odradek_pipeline.audit.findings import Findings, Ranges
from odradek_pipeline.audit.folder_topic import FolderTopic
from odradek_pipeline.audit.log_batches import Damage, Place
from odradek_pipeline.audit.report import partition_line
from odradek_pipeline.audit.sides import AuditError, Topic
from odradek_pipeline.audit.topic_table import OffsetMap
from odradek_pipeline.datasource.folders import CLEANER, LOG_START, REPLICATION, Home
from odradek_pipeline.protocol.records.batch import COMPRESSION_MASK, HEADER_SIZE, BatchHeader
from odradek_pipeline.protocol.records.compression import Compression, decompress
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.folders import FolderLog, Folders, rewritten, root_metadata
from odradek_pipeline.restore.log_writer import METADATA, LogWriter
from odradek_pipeline.restore.merged import Batch, MadeBatch, base_of
from odradek_pipeline.restore.replicas import FolderReplica
from odradek_pipeline.restore.target import Target

Progress = Callable[[int], None]


class CommittedLog(Protocol):
    """A partition of which the committed records can be had, with their offsets.

    `open_transactions` have no end there, so that nobody knows whether they were committed.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: str | None
    lost: Ranges
    damage: list[str]
    open_transactions: int

    def committed(self, *, keep_epochs: bool, compression: Compression | None) -> Iterator[MadeBatch]:
        """Batches of at most some megabytes, or one record."""
        ...


class Source(Protocol):
    """What has the committed records of one or more topics. Everything raises AuditError."""

    name: str

    def partitions(self) -> list[TopicPartition]: ...

    def log(self, partition: TopicPartition) -> CommittedLog: ...

    def topic(self, name: str) -> Topic:
        """The committed records of a topic."""
        ...

    def audit(self, topic: str, restored: Topic, offsets: OffsetMap | None = None) -> list[Findings]:
        """What a restored topic has of the source's records; `offsets`, if they are others there."""
        ...


@dataclass(slots=True)
class Written:
    """What was done of a partition. `lost`: offsets that the source has damaged, in all its replicas."""

    partition: TopicPartition
    start: int
    end: int
    batches: int = 0
    size: int = 0
    lost: Ranges = field(default_factory=Ranges)
    damage: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    open_transactions: int = 0

    @property
    def ok(self) -> bool:
        return not self.lost.count and not self.differences

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "start": self.start,
            "end": self.end,
            "batches": self.batches,
            "bytes": self.size,
            "lost": self.lost.to_json(),
            "damage": self.damage,
            "differences": self.differences,
            "open_transactions": self.open_transactions,
            "ok": self.ok,
        }


@dataclass(slots=True)
class IntoData:
    """`root` is the data folder. None of `compression` leaves batches as they are."""

    root: Path
    compression: Compression | None = None
    progress: Progress = lambda _: None

    def whole(self, source: Folders, topics: Collection[str]) -> list[Written]:
        """All partitions as they were, into a new folder. Raises AuditError, OSError."""
        metadata = root_metadata(source.roots)
        if metadata is None:
            raise AuditError(
                f"{source.name} has no metadata of a cluster, so no broker could start on {self.root}. Make a broker's "
                "data folder first: start it, create the topics, stop it, and restore into that folder."
            )
        source.as_it_was()
        target = self._target(source.name, topics)
        with target.locked():
            for partition in source.partitions():
                target.check(partition)
            target.begin(metadata)
            done = [self._one(target, source.log(partition), self._as_it_was) for partition in source.partitions()]
            for written in done:
                written.differences = self._compared(source.log(written.partition), target)
            if not any(written.differences for written in done):
                target.end()
        return done

    def records(self, source: Source, topics: Collection[str]) -> list[Written]:
        """The committed records, into a folder that has their topics, which are empty. Raises AuditError, OSError."""
        target = self._target(source.name, topics)
        with target.locked():
            for partition in source.partitions():
                target.check(partition)
            target.begin(None)
            done = [self._one(target, source.log(partition), self._committed) for partition in source.partitions()]
            self._audit(source, done)
            if not any(written.differences for written in done):
                target.end()
        return done

    def _target(self, name: str, topics: Collection[str]) -> Target:
        compression = None if self.compression is None else self.compression.name
        return Target(self.root, {"from": name, "topics": sorted(topics), "compression": compression})

    def _one(self, target: Target, log: Any, write: Callable[..., Iterator[MadeBatch]]) -> Written:
        done = Written(log.partition, log.start, log.end, lost=log.lost, damage=log.damage)
        done.open_transactions = log.open_transactions
        if target.is_done(log.partition):
            return done
        same_topic = log.topic_id is not None and log.topic_id == target.topic_id(log.partition)
        writer = LogWriter(target.clear(log.partition), log.start)
        for header, data in write(log, writer, same_topic):
            done.batches += 1
            done.size += len(data)
            self.progress(header.last_offset_delta + 1)
        writer.close(log.end)
        offsets = {LOG_START: log.start, REPLICATION: log.end}
        if isinstance(log, FolderLog):
            offsets[LOG_START] = log.merged.log_start
            if log.merged.cleaned:
                offsets[CLEANER] = log.merged.cleaned
        target.written(log.partition, offsets)
        return done

    def _committed(self, log: CommittedLog, writer: LogWriter, same_topic: bool) -> Iterator[MadeBatch]:
        for header, data in log.committed(keep_epochs=same_topic, compression=self.compression):
            writer.append(header, data)
            yield header, data

    def _as_it_was(self, log: FolderLog, writer: LogWriter, _same_topic: bool) -> Iterator[MadeBatch]:
        story, segment = log.merged.story, None
        ends = {txn.last_offset: txn for txn in story.aborted if txn.last_offset in story.stable}
        if log.topic_id is not None:
            (writer.folder / METADATA).write_text(f"version: 0\ntopic_id: {log.topic_id}")
        writer.epochs += log.merged.older
        for batch in log.merged.batches():
            header, data = batch.header, bytearray(batch.read())
            if self.compression is not None and not header.is_control and header.record_count:
                header, data = rewritten(header, data, self.compression)
            base = base_of(batch) or segment
            writer.append(header, data, roll=base != segment)
            segment = base
            if header.is_control and (txn := ends.get(header.base_offset)) is not None:
                writer.aborted(txn, story.stable[header.base_offset])
            yield header, data

    # -- afterwards

    def _compared(self, log: FolderLog, target: Target) -> list[str]:
        """Where a written batch is not that of the source; their CRCs are in the headers, and are checked."""
        home = Home(log.partition, str(target.root), str(target.folder(log.partition)))
        for wanted, got in zip_longest(log.merged.batches(), FolderReplica(home).batches(log.start)):
            if wanted is None or not isinstance(got, Place) or not _same(wanted, got):
                other = got if wanted is None else wanted
                at = other.offset if isinstance(other, Damage) else other.header.base_offset
                return [f"{log.partition}: the batch at offset {at} is not that of the source"]
        return []

    def _audit(self, source: Source, done: list[Written]) -> None:
        """`audit` of each topic in the folder against the source."""
        for topic in sorted({written.partition.topic for written in done}):
            for found in source.audit(topic, FolderTopic((str(self.root),), topic)):
                for written in done:
                    if found.faults and written.partition == (topic, found.partition):
                        written.differences.append(partition_line(found.to_json()))


def _same(wanted: Batch, got: Place) -> bool:
    """Whether it is the same batch, but for its compression."""
    own, its = wanted.header, got.header
    if own == its:
        return True
    alike = own._replace(
        batch_length=its.batch_length, crc=its.crc, attributes=own.attributes & ~COMPRESSION_MASK | its.compression
    )
    return alike == its and _records(own, wanted.read()) == _records(its, got.read())


def _records(header: BatchHeader, data: bytes) -> bytes:
    return decompress(Compression(header.compression), memoryview(data)[HEADER_SIZE:])
