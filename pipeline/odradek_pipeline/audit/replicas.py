"""The folders of several brokers against each other: the logs of each partition, batch by batch.

Replicas have the same batches, byte by byte, up to the end of the shortest; so the first one that differs says where
they part. Each log is also checked by itself: CRCs, offsets and leader epochs that rise, sequence numbers of producers
without gaps, aborted transactions that the index has. What compaction may remove (below a folder's
`cleaner-offset-checkpoint`) is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek_pipeline.audit.groups import OFFSETS_TOPIC, CommitWatch
from odradek_pipeline.audit.log_batches import Damage, Place, batches_in
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import CLEANER, LOG_START, REPLICATION, Home, find_homes, read_checkpoint
from odradek_pipeline.datasource.indexes import AbortedTxn, read_aborted
from odradek_pipeline.datasource.places import open_log
from odradek_pipeline.datasource.segments import Segment, list_segments
from odradek_pipeline.protocol.records.batch import BatchHeader, advance_sequence
from odradek_pipeline.protocol.records.build import ControlRecordType, read_control_batch
from odradek_pipeline.protocol.topic_partition import TopicPartition

MOST = 100
"""Findings that are kept of one log; what comes after is only counted."""
EPOCHS = "leader-epoch-checkpoint"


@dataclass(slots=True)
class LogFindings:
    """One log by itself: each finding with the offset at which it shows."""

    folder: str
    start: int = 0
    end: int = 0
    batches: int = 0
    high_watermark: int | None = None
    count: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)
    open_transactions: int = 0

    def add(self, kind: str, offset: int, text: str) -> None:
        self.count += 1
        if len(self.faults) < MOST:
            self.faults.append({"kind": kind, "offset": offset, "text": text})

    def to_json(self) -> dict[str, Any]:
        names = ("folder", "start", "end", "batches", "high_watermark", "open_transactions", "faults")
        return {name: getattr(self, name) for name in names} | {"fault_count": self.count}


class Producers:
    """What a log says of its producers: sequence numbers follow each other, and transactions end (KIP-98)."""

    def __init__(self, found: LogFindings, *, complete: bool) -> None:
        self._found = found
        self._complete = complete
        self._last: dict[int, tuple[int, int]] = {}
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTxn] = []

    def see(self, place: Place) -> None:
        header = place.header
        if not header.has_producer_id:
            return
        producer, epoch = header.producer_id, header.producer_epoch
        known = self._last.get(producer)
        if known is not None and epoch < known[0]:
            text = f"producer {producer}: epoch {epoch} after {known[0]}"
            self._found.add("producer-epoch", header.base_offset, text)
        if header.is_control:
            self._end(place)
            self._last[producer] = epoch, known[1] if known is not None and known[0] == epoch else -1
            return
        if known is not None and known[0] == epoch and known[1] >= 0 and self._complete:
            expected = advance_sequence(known[1], 1)
            if header.base_sequence != expected:
                self._found.add(
                    "sequence",
                    header.base_offset,
                    f"producer {producer}: sequence {header.base_sequence} where {expected} follows",
                )
        self._last[producer] = epoch, header.last_sequence
        if header.is_transactional:
            self.open.setdefault(producer, header.base_offset)

    def _end(self, place: Place) -> None:
        header = place.header
        try:
            control = read_control_batch(place.read(), header)
        except ValueError as error:
            self._found.add("marker", header.base_offset, f"the control batch cannot be read: {error}")
            return
        marker = None if control is None else control[0]
        if marker is None:
            return
        first = self.open.pop(header.producer_id, None)
        if first is not None and marker.type is ControlRecordType.ABORT:
            self.aborted.append(AbortedTxn(header.producer_id, first, header.base_offset))


class ReplicaLog:
    """The log of one replica, walked over once."""

    def __init__(self, home: Home) -> None:
        """Raises AuditError."""
        self.home = home
        self.found = LogFindings(home.folder)
        try:
            self._listing = list_segments(home.folder)
            starts, marks, cleaned = (read_checkpoint(home.root, name) for name in (LOG_START, REPLICATION, CLEANER))
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error
        first = self._listing.segments[0].base_offset if self._listing.segments else 0
        self.found.start = self.found.end = max(first, starts.get(home.partition, 0))
        self.found.high_watermark = marks.get(home.partition)
        self.cleaned = cleaned.get(home.partition, 0)
        self._epochs = _epochs(home)
        self._producers = Producers(self.found, complete=self.cleaned == 0)

    def batches(self) -> Iterator[Place]:
        """The whole batches in their order, each checked as it comes; damage is noted and left out."""
        epoch, least = -1, 0
        for segment in self._listing.segments:
            try:
                with open_log(segment.log) as log:
                    for place in batches_in(log, max(least, segment.base_offset)):
                        if isinstance(place, Damage):
                            self.found.add(place.kind, place.offset, place.text)
                            continue
                        header = place.header
                        least = header.next_offset
                        if header.leader_epoch < epoch:
                            self.found.add(
                                "leader-epoch", header.base_offset, f"leader epoch {header.leader_epoch} after {epoch}"
                            )
                        epoch = max(epoch, header.leader_epoch)
                        self._check_epoch(header)
                        self._producers.see(place)
                        self.found.batches += 1
                        self.found.end = header.next_offset
                        yield place
                self._check_aborted(segment)
            except (DataSourceError, OSError) as error:
                self.found.add("unreadable", least, f"{segment.log}: {error}")
        self.found.open_transactions = len(self._producers.open)
        if self.found.high_watermark is not None and self.found.end < self.found.high_watermark:
            self.found.add(
                "cut", self.found.end, f"the log ends here, and its broker had come to {self.found.high_watermark}"
            )

    def _check_aborted(self, segment: Segment) -> None:
        """Compare the aborted transactions that end in a segment with its transaction index.

        From that, brokers tell consumers what to leave out: without an entry they would see aborted records.
        """
        seen, self._producers.aborted = set(self._producers.aborted), []
        indexed = set(read_aborted(segment))
        for txn in sorted(seen - indexed, key=lambda txn: txn.last_offset):
            text = f"producer {txn.producer_id}: the transaction from {txn.first_offset} was aborted, and is not in the"
            self.found.add("transaction", txn.last_offset, f"{text} transaction index")
        for txn in sorted(indexed - seen, key=lambda txn: txn.last_offset):
            if txn.first_offset >= self.found.start and not self.cleaned:
                text = f"producer {txn.producer_id}: the transaction index has an abort here, and the log has none"
                self.found.add("transaction", txn.last_offset, text)

    def _check_epoch(self, header: BatchHeader) -> None:
        """Compare a batch's epoch with the folder's `leader-epoch-checkpoint`, which says where each begins."""
        if not self._epochs or header.base_offset < self._epochs[0][1]:
            return
        expected = max((epoch for epoch, start in self._epochs if start <= header.base_offset), default=-1)
        if header.leader_epoch != expected:
            self.found.add(
                "leader-epoch",
                header.base_offset,
                f"leader epoch {header.leader_epoch}, and {EPOCHS} has {expected} there",
            )


def _epochs(home: Home) -> list[tuple[int, int]]:
    """(epoch, its first offset), as the folder's checkpoint has them; empty if it has none that can be read."""
    try:
        lines = Path(home.folder, EPOCHS).read_text().split("\n")[2:]
        return [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines if line)]
    except (OSError, ValueError):
        return []


@dataclass(slots=True)
class PartitionReplicas:
    """A partition on several brokers.

    `first_difference` is where two of them part: both batches, and what differs. `compared` is up to where they were
    compared: the end of the shortest.
    """

    partition: TopicPartition
    logs: list[LogFindings]
    compared: int = 0
    compacted: int = 0
    differing: int = 0
    first_difference: dict[str, Any] | None = None
    commits: list[dict[str, Any]] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return self.differing + sum(log.count for log in self.logs) + len(self.commits)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "ok": not self.faults,
            "compared_to": self.compared,
            "differing_batches": self.differing,
            "compacted_batches": self.compacted,
            "first_difference": self.first_difference,
            "commits_that_go_back": self.commits,
            "replicas": [log.to_json() for log in self.logs],
        }


def audit_replicas(folders: Sequence[str], topics: Sequence[str]) -> list[PartitionReplicas]:
    """Compare the partitions that at least two folders have, and check those of one. Raises AuditError."""
    homes: dict[TopicPartition, list[Home]] = {}
    for folder in folders:
        try:
            for home in find_homes((folder,), lambda key: not topics or key.topic in topics):
                homes.setdefault(home.partition, []).append(home)
        except DataSourceError as error:
            raise AuditError(str(error)) from error
    if not homes:
        raise AuditError(f"No partition of {', '.join(topics) or 'any topic'} is in {', '.join(folders)}.")
    return [_partition(key, [ReplicaLog(home) for home in of]) for key, of in sorted(homes.items())]


def _partition(key: TopicPartition, logs: list[ReplicaLog]) -> PartitionReplicas:
    found = PartitionReplicas(key, [log.found for log in logs])
    watch = CommitWatch(found.commits) if key.topic == OFFSETS_TOPIC else None
    walks = [log.batches() for log in logs]
    heads = [next(walk, None) for walk in walks]
    start, cleaned = max(log.found.start for log in logs), max(log.cleaned for log in logs)
    while any(heads):
        ahead = min(head.header.base_offset for head in heads if head is not None)
        at = [head if head is not None and head.header.base_offset == ahead else None for head in heads]
        if watch is not None and (first := next(filter(None, at))) is not None:
            watch.see(first.header, first.read())
        if all(heads) and ahead >= start:
            _compare(found, logs, at, ahead, cleaned)
        heads = [
            next(walk, None) if here is not None else head for walk, here, head in zip(walks, at, heads, strict=True)
        ]
    found.compared = min(log.found.end for log in logs)
    return found


def _compare(
    found: PartitionReplicas, logs: list[ReplicaLog], at: list[Place | None], offset: int, cleaned: int
) -> None:
    """Compare the batches at an offset; None is a log that has none which begins there."""
    headers = [None if place is None else place.header for place in at]
    if all(header == headers[0] for header in headers) or len(logs) == 1:
        return
    if offset < cleaned:
        found.compacted += 1
        return
    found.differing += 1
    if found.first_difference is None:
        found.first_difference = {
            "offset": offset,
            "what": _what(headers),
            "batches": [
                {"folder": log.home.folder} | ({} if header is None else _shown(header))
                for log, header in zip(logs, headers, strict=True)
            ],
        }


def _what(headers: list[BatchHeader | None]) -> list[str]:
    known = [header for header in headers if header is not None]
    if len(known) < len(headers):
        return ["a replica has no batch that begins here"]
    return [name for name in BatchHeader._fields if len({getattr(header, name) for header in known}) > 1]


def _shown(header: BatchHeader) -> dict[str, Any]:
    return header._asdict()
