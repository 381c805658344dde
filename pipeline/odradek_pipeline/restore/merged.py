"""The log of a partition out of its replicas, some of which may be damaged.

The replica with the latest leader epoch, and among those the longest, says what the log is: what others have beyond it
was never committed. Where that one has damage or a gap, whole batches of the others are taken, if their epochs fit.
Segments in remote storage are replicas, too: what is only there is a gap of all the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from odradek_pipeline.audit.findings import Ranges
from odradek_pipeline.audit.log_batches import NO_END, Damage, Place
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.folders import Home, topic_id
from odradek_pipeline.datasource.indexes import AbortedBatches, AbortedTxn
from odradek_pipeline.datasource.tier_view import Lineage
from odradek_pipeline.datasource.tiers import Tier
from odradek_pipeline.protocol.records.batch import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
    read_header,
    set_offsets_and_epoch,
)
from odradek_pipeline.protocol.records.build import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_marker,
    pack_batch,
    read_control_batch,
)
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State
from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.replicas import (
    EMPTY,
    Cursor,
    FolderReplica,
    RemoteReplica,
    Replica,
    lineage_of,
    remote_replicas,
)

MOST_TEXTS = 100
NOTHING = -2
"""In place of the leader epoch of the batch before, where there is none."""


@dataclass(frozen=True, slots=True)
class Made:
    """A batch that is in no file: a marker which was lost, and which a transaction index tells of.

    Or one without records, where a log ends whose last batches are lost.
    """

    header: BatchHeader
    data: bytes

    def read(self) -> bytes:
        return self.data


Batch = Place | Made
MadeBatch = tuple[BatchHeader, bytearray]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [first, end) that no replica fills. `damaged`: the first of them had something there."""

    first: int
    end: int
    damaged: bool


class _Filler:
    """The batches of another replica, asked for gap after gap."""

    def __init__(self, replica: Replica, start: int) -> None:
        self.replica = replica
        self._cursor = Cursor(start)
        self._walk = replica.walk(self._cursor)
        self._next: Place | Damage | None = None

    def within(self, first: int, end: int, epochs: tuple[int, int]) -> Iterator[Place | Damage]:
        """Its batches with offsets in [first, end), and leader epochs within the two; and its damage there."""
        self._cursor.offset = max(self._cursor.offset, first)
        while (found := self._next or next(self._walk, None)) is not None:
            self._next = found
            if isinstance(found, Damage):
                if found.offset >= end:
                    return
                if found.offset >= first:
                    yield found
            elif found.header.next_offset > end:
                return
            elif epochs[0] <= found.header.leader_epoch <= epochs[1]:
                begun = found.header.base_offset < first < found.header.next_offset
                if found.header.base_offset >= first or (begun and epochs[0] == NOTHING):  # the log starts within it
                    yield found
            self._next = None
            if isinstance(found, Place) and found.header.next_offset == end:
                return  # what follows may be in a segment that nobody needs


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
        gaps: by the end of each gap that no replica fills, its first offset.
    """

    end: int = 0
    lost: Ranges = field(default_factory=Ranges)
    aborted: list[AbortedTxn] = field(default_factory=list)
    stable: dict[int, int] = field(default_factory=dict)
    open: int = 0
    damage: list[str] = field(default_factory=list)
    gaps: dict[int, int] = field(default_factory=dict)

    def note(self, text: str) -> None:
        if len(self.damage) < MOST_TEXTS and text not in self.damage:
            self.damage.append(text)


@dataclass(slots=True)
class _Open:
    """Producers in a transaction: first offset and epoch; and the time and leader epoch of the batch before."""

    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    timestamp: int = 0
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class RemotePart:
    """What is known to be in remote storage of a log. Without a `tier` it cannot be read.

    `stays`: it is left there, for a broker that will know of it.
    """

    topic_id: str
    segments: Sequence[RemoteSegment]
    tier: Tier | None
    stays: bool = False

    @property
    def first(self) -> int:
        return min(one.start_offset for one in self.segments if one.state is State.COPY_FINISHED)


class MergedLog:
    """A partition's log.

    Attributes:
        start: where readers may begin, with what is read here.
        log_start: where they may begin if they read remote storage, too; `older` are the leader epochs before `start`.
        story: what the first walk has told.
    """

    def __init__(self, partition: TopicPartition, homes: Sequence[Home], remote: RemotePart | None = None) -> None:
        """Raises AuditError."""
        self.partition = partition
        try:
            local = [FolderReplica(home) for home in homes]
            found_id = next(filter(None, map(topic_id, homes)), None)
        except (DataSourceError, OSError) as error:
            raise AuditError(str(error)) from error
        self.topic_id = found_id if remote is None else remote.topic_id
        replicas: list[Replica] = [*local]
        if len(local) > 1 or (remote is not None and remote.tier is not None):
            for replica in local:
                replica.survey()
        lineage = Lineage(())
        if remote is not None:
            own = max(local, key=lambda one: one.rank, default=None)
            lineage = lineage_of(Lineage(()) if own is None else own.lineage(), remote.segments, remote.tier)
            if remote.tier is not None:
                replicas += remote_replicas(remote.tier, remote.segments, lineage)
        ranked = [replica for replica in replicas if replica.rank != EMPTY] or replicas[:1]
        self._primary, *self._others = sorted(replicas, key=lambda one: (one in ranked, one.rank), reverse=True)
        self.cleaned = self._primary.cleaned
        self._starts(ranked, local, remote)
        self.older = [entry for entry in lineage.entries if self.log_start < self.start > entry.start_offset]
        self._markers: dict[int, Made] = {}
        self._last: Made | None = None
        self._indexed: dict[int, AbortedTxn] | None = None
        self.story = self._told()
        if remote is not None and remote.tier is None and not remote.stays and self.start < ranked[0].first:
            self.story.note(
                f"{partition}: offsets {self.start} to {ranked[0].first - 1} are in remote storage. Say where that is, "
                "with --from-tier."
            )
        self.aborted = AbortedBatches(self.story.aborted)

    def _starts(self, ranked: list[Replica], local: list[FolderReplica], remote: RemotePart | None) -> None:
        """Of a log that is tiered, each folder's checkpoint says where it starts; of others only a raised one."""
        least = min(replica.first for replica in ranked)
        told = [
            one.log_start
            for one in local
            if one.log_start is not None and (remote is not None or (one in ranked and one.log_start > one.first))
        ]
        self.start = self.log_start = max([least, *told])
        if remote is not None and remote.tier is None:
            self.log_start = min(self.log_start, max([remote.first, *told]))
            if not remote.stays:
                self.start = self.log_start

    def batches(self, start: int | None = None, end: int = NO_END) -> Iterator[Batch]:
        """The batches that have offsets of [start, end), up to where the log ended when it was walked over.

        Raises AuditError if something has gone since then.
        """
        for found in self._merged(self.start if start is None else max(start, self.start)):
            if isinstance(found, Gap):
                if found.first >= self.story.end:
                    return
                if found.first < self.story.gaps.get(found.end, found.end):
                    raise AuditError(
                        f"{self.partition}: offsets {found.first} to {found.end - 1} were there a moment ago, and are "
                        "gone now. Repeat the restore."
                    )
                yield from (made for at, made in self._markers.items() if found.first <= at < min(found.end, end))
            elif isinstance(found, Place):
                if found.header.base_offset >= min(end, self.story.end):
                    return
                yield found
        if self._last is not None and self._last.header.base_offset < end:
            yield self._last

    def _merged(self, start: int) -> Iterator[Place | Damage | Gap]:
        """Batches, the damage of the first replica, and the gaps that none fills."""
        expected, epoch, damaged = start, NOTHING, False
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
        """Those that may fill a gap: what compaction has removed must not come back without its tombstone.

        A log that was compacted once can be tiered since, but not the other way round.
        """
        if gap.first >= self.cleaned:
            return others
        least = min(self.cleaned, gap.end)
        return [one for one in others if isinstance(one.replica, RemoteReplica) or one.replica.cleaned >= least]

    # -- the first walk

    def _told(self) -> Story:
        story, known = Story(), _Open()
        for found in self._merged(self.start):
            if isinstance(found, Damage):
                story.note(found.text)
            elif isinstance(found, Place):
                self._see(found, story, known)
                story.end = found.header.next_offset
            else:
                story.gaps[found.end] = found.first
                if found.damaged or found.end > self.cleaned:
                    self._lost(found, story, known)
        seen, story.end = story.end, max(story.end, self.start, self._primary.newest)
        if max(seen, self.start, self.cleaned) < story.end:  # brokers remove an empty segment behind a gap
            header, data = empty_batch(story.end - 1, known.leader_epoch)
            self._last = Made(header, bytes(data))
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

    def _lost(self, gap: Gap, story: Story, known: _Open) -> None:
        """Note lost offsets. If a marker was among them that aborts, and an index tells of it, it is made again."""
        first, end = gap.first, gap.end
        if self._indexed is None:
            replicas = (self._primary, *self._others)
            self._indexed = {txn.last_offset: txn for replica in replicas for txn in replica.aborted()}
        indexed = self._indexed
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


def empty_batch(offset: int, leader_epoch: int) -> MadeBatch:
    """A batch without records at an offset (Kafka's DefaultRecordBatch.writeEmptyHeader)."""
    made = pack_batch(b"", 0, last_offset_delta=0, base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP)
    header = read_header(made)._replace(base_offset=offset, leader_epoch=leader_epoch)
    made[:HEADER_SIZE] = pack_header(header)
    return header, made


def _filled(others: Sequence[_Filler], gap: Gap, epochs: tuple[int, int]) -> Iterator[Place | Damage | Gap]:
    """What the others have of a gap, in their order, and the gaps that are left."""
    if not others:
        yield gap
        return
    first = gap.first
    for found in others[0].within(gap.first, gap.end, epochs):
        if isinstance(found, Damage):
            yield found
            continue
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
