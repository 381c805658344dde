"""The log of a partition out of its replicas, some of which may be damaged.

The replica with the latest leader epoch, and among those the longest, says what the log is: what others have beyond it
was never committed. Where that one has damage or a gap, whole batches of the others are taken, if their epochs fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from odradek_pipeline.audit.findings import Ranges
from odradek_pipeline.audit.log_batches import NO_END, Damage, Place, batches_in
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import CLEANER, LOG_START, Home, read_checkpoint, topic_id
from odradek_pipeline.datasource.indexes import AbortedBatches, AbortedTxn, read_aborted
from odradek_pipeline.datasource.places import open_log
from odradek_pipeline.datasource.segments import list_segments
from odradek_pipeline.protocol.records.batch import BatchHeader, read_header, set_offsets_and_epoch
from odradek_pipeline.protocol.records.build import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_marker,
    read_control_batch,
)

MOST_TEXTS = 100
EMPTY = (-1, 0)
"""The rank of a log without batches."""


@dataclass(frozen=True, slots=True)
class Made:
    """A batch that is in no file: a marker which was lost, and which a transaction index tells of."""

    header: BatchHeader
    data: bytes

    def read(self) -> bytes:
        return self.data


Batch = Place | Made


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [first, end) that no replica fills. `damaged`: the first of them had something there."""

    first: int
    end: int
    damaged: bool


class Replica:
    """One copy of the log. `start` and `cleaned` are from the checkpoints of its data folder.

    `newest` is the base offset of its last segment: the log goes as far at least, even if that one is empty.
    """

    def __init__(self, home: Home) -> None:
        """Raises DataSourceError, OSError."""
        self.home = home
        self.segments = list_segments(home.folder).segments
        self.first = self.segments[0].base_offset if self.segments else 0
        self.newest = self.segments[-1].base_offset if self.segments else 0
        self.start = max(self.first, read_checkpoint(home.root, LOG_START).get(home.partition, 0))
        self.cleaned = read_checkpoint(home.root, CLEANER).get(home.partition, 0)
        self.rank = EMPTY

    def survey(self) -> None:
        """Find out its rank: the latest leader epoch, and the end."""
        for found in self.batches(0):
            if isinstance(found, Place):
                self.rank = max(self.rank[0], found.header.leader_epoch), max(found.header.next_offset, self.newest)

    def batches(self, start: int) -> Iterator[Place | Damage]:
        """From the batch with offset `start` on. A file that cannot be read is damage."""
        bases = [segment.base_offset for segment in self.segments[1:]] + [NO_END]
        for segment, before in zip(self.segments, bases, strict=True):
            if before <= start:
                continue
            try:
                with open_log(segment.log) as log:
                    for found in batches_in(log, segment.base_offset, before):
                        if isinstance(found, Damage) or found.header.next_offset > start:
                            yield found
            except (DataSourceError, OSError) as error:
                yield Damage("unreadable", segment.base_offset, f"{segment.log}: {error}")

    def aborted(self) -> list[AbortedTxn]:
        """What its transaction indexes say, as far as they can be read."""
        found: list[AbortedTxn] = []
        for segment in self.segments:
            try:
                found += read_aborted(segment)
            except (DataSourceError, OSError):
                continue  # then the log's own markers have to do
        return found


class _Filler:
    """The batches of another replica, asked for gap after gap."""

    def __init__(self, replica: Replica, start: int) -> None:
        self.cleaned = replica.cleaned
        self._walk = (found for found in replica.batches(start) if isinstance(found, Place))
        self._next = next(self._walk, None)

    def within(self, first: int, end: int, epochs: tuple[int, int]) -> Iterator[Place]:
        """Its batches with offsets in [first, end), and leader epochs within the two."""
        while self._next is not None and self._next.header.next_offset <= end:
            header = self._next.header
            if header.base_offset >= first and epochs[0] <= header.leader_epoch <= epochs[1]:
                yield self._next
            self._next = next(self._walk, None)


@dataclass(slots=True)
class Story:
    """What a walk over the whole log tells.

    Attributes:
        end: the offset behind the last batch, or the base offset of a last segment that is empty.
        lost: offsets that no replica has whole.
        aborted: aborted transactions, and those without an end, which reach to the log's end.
        stable: by the offset of an aborted transaction's marker, the last stable offset after it.
        open: transactions without an end.
        damage: what was found broken.
    """

    end: int = 0
    lost: Ranges = field(default_factory=Ranges)
    aborted: list[AbortedTxn] = field(default_factory=list)
    stable: dict[int, int] = field(default_factory=dict)
    open: int = 0
    damage: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if len(self.damage) < MOST_TEXTS and text not in self.damage:
            self.damage.append(text)


@dataclass(slots=True)
class _Open:
    """Producers in a transaction: first offset and epoch; and the time and leader epoch of the batch before."""

    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    timestamp: int = 0
    leader_epoch: int = 0


class MergedLog:
    """A partition's log. `start` is where readers may begin; `story` is what the first walk has told."""

    def __init__(self, homes: Sequence[Home]) -> None:
        """Raises AuditError."""
        self.partition = homes[0].partition
        try:
            replicas = [Replica(home) for home in homes]
            self.topic_id = next(filter(None, map(topic_id, homes)), None)
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error
        if len(replicas) > 1:
            for replica in replicas:
                replica.survey()
            replicas = [replica for replica in replicas if replica.rank != EMPTY] or replicas[:1]
        self._primary, *self._others = sorted(replicas, key=lambda replica: replica.rank, reverse=True)
        least = min(replica.first for replica in replicas)
        self.start = max([least, *(replica.start for replica in replicas if replica.start > replica.first)])
        self.cleaned = self._primary.cleaned
        self._markers: dict[int, Made] = {}
        self.story = self._told()
        self.aborted = AbortedBatches(self.story.aborted)

    @property
    def folder(self) -> str:
        """The folder of the replica that says what the log is."""
        return self._primary.home.folder

    def batches(self, start: int | None = None, end: int = NO_END) -> Iterator[Batch]:
        """The batches that have offsets of [start, end), up to where the log ended when it was walked over."""
        for found in self._merged(self.start if start is None else max(start, self.start)):
            if isinstance(found, Gap):
                yield from (made for at, made in self._markers.items() if found.first <= at < min(found.end, end))
            elif isinstance(found, Place):
                if found.header.base_offset >= min(end, self.story.end):
                    return
                yield found

    def _merged(self, start: int) -> Iterator[Place | Damage | Gap]:
        """Batches, the damage of the first replica, and the gaps that none fills."""
        expected, epoch, damaged = start, -1, False
        others = [_Filler(replica, start) for replica in self._others]
        for found in self._primary.batches(start):
            if isinstance(found, Damage):
                damaged = True
                yield found
                continue
            header = found.header
            if header.base_offset > expected:
                gap = Gap(expected, header.base_offset, damaged)
                yield from _filled(self._usable(others, gap), gap, (epoch, header.leader_epoch))
            yield found
            expected, epoch, damaged = header.next_offset, header.leader_epoch, False
        if expected < self._primary.newest:
            gap = Gap(expected, self._primary.newest, damaged)
            yield from _filled(self._usable(others, gap), gap, (epoch, max(epoch, self._primary.rank[0])))

    def _usable(self, others: list[_Filler], gap: Gap) -> list[_Filler]:
        """Those that may fill a gap: what compaction has removed must not come back without its tombstone."""
        if gap.first >= self.cleaned:
            return others
        return [other for other in others if other.cleaned >= min(self.cleaned, gap.end)]

    # -- the first walk

    def _told(self) -> Story:
        story, known = Story(), _Open()
        indexed = {txn.last_offset: txn for replica in (self._primary, *self._others) for txn in replica.aborted()}
        for found in self._merged(self.start):
            if isinstance(found, Damage):
                story.note(found.text)
            elif isinstance(found, Place):
                self._see(found, story, known)
                story.end = found.header.next_offset
            elif found.damaged or found.end > self.cleaned:
                self._lost(found, story, known, indexed)
        story.end = max(story.end, self.start, self._primary.newest)
        story.open = len(known.producers)
        tail = max(story.end - 1, 0)
        story.aborted += [AbortedTxn(producer, first, tail) for producer, (first, _) in known.producers.items()]
        return story

    def _see(self, batch: Batch, story: Story, known: _Open) -> None:
        header = batch.header
        known.timestamp, known.leader_epoch = header.max_timestamp, header.leader_epoch
        if not header.is_transactional:
            return
        if not header.is_control:
            known.producers.setdefault(header.producer_id, (header.base_offset, header.producer_epoch))
            return
        try:
            control = read_control_batch(batch.read(), header)
        except ValueError as error:
            story.note(f"{self.partition}: the control batch at offset {header.base_offset}: {error}")
            return
        first = known.producers.pop(header.producer_id, None)
        marker = None if control is None else control[0]
        if first is not None and marker is not None and marker.type is ControlRecordType.ABORT:
            story.aborted.append(AbortedTxn(header.producer_id, first[0], header.base_offset))
            left = [offset for offset, _ in known.producers.values()]
            story.stable[header.base_offset] = min(left, default=header.next_offset)

    def _lost(self, gap: Gap, story: Story, known: _Open, indexed: dict[int, AbortedTxn]) -> None:
        """Note lost offsets. If a marker was among them that aborts, and an index tells of it, it is made again."""
        first, end = gap.first, gap.end
        for offset in sorted(offset for offset in indexed if first <= offset < end):
            txn = indexed[offset]
            if txn.producer_id in known.producers:
                made = _abort(txn, known)
                self._markers[offset] = made
                if first < offset:
                    story.lost.add_range(first, offset - 1)
                self._see(made, story, known)
                first = offset + 1
        if first < end:
            story.lost.add_range(first, end - 1)
        for producer, (began, _) in known.producers.items():
            story.note(
                f"{self.partition}: the transaction of producer {producer} from offset {began} may have ended in the "
                f"lost offsets {gap.first} to {gap.end - 1}; its next marker decides"
            )


def _abort(txn: AbortedTxn, known: _Open) -> Made:
    batch = build_end_marker(
        EndTransactionMarker(ControlRecordType.ABORT, 0),
        producer_id=txn.producer_id,
        producer_epoch=known.producers[txn.producer_id][1],
        timestamp=known.timestamp,
    )
    set_offsets_and_epoch(batch, read_header(batch), txn.last_offset, known.leader_epoch)
    return Made(read_header(batch), bytes(batch))


def _filled(others: Sequence[_Filler], gap: Gap, epochs: tuple[int, int]) -> Iterator[Place | Gap]:
    """What the others have of a gap, in their order, and the gaps that are left."""
    if not others:
        yield gap
        return
    first = gap.first
    for found in others[0].within(gap.first, gap.end, epochs):
        header = found.header
        if header.base_offset > first:
            yield from _filled(
                others[1:], Gap(first, header.base_offset, gap.damaged), (epochs[0], header.leader_epoch)
            )
        yield found
        first, epochs = header.next_offset, (header.leader_epoch, epochs[1])
    if first < gap.end:
        yield from _filled(others[1:], Gap(first, gap.end, gap.damaged), epochs)


def base_of(batch: Batch) -> int | None:
    """The base offset of the segment that a batch is from; None if it is from none."""
    return int(os.path.basename(batch.log.path)[:20]) if isinstance(batch, Place) else None
