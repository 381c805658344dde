"""The copies of a partition's log: in data folders, and in remote storage.

Remote segments may overlap, since several leaders have copied: those that do not are one copy, the others a second one,
and so on. Of a remote segment those batches belong to the log that have its leader epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from odradek_pipeline.audit.log_batches import NO_END, Damage, Place, batches_in
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.datasource.errors import DataSourceError, StoreUnavailableError
from odradek_pipeline.datasource.folders import CLEANER, LOG_START, Home, read_checkpoint
from odradek_pipeline.datasource.indexes import AbortedTxn, read_aborted
from odradek_pipeline.datasource.places import RemoteFileMissing, open_log
from odradek_pipeline.datasource.segments import Segment, list_segments
from odradek_pipeline.datasource.tier_view import Lineage, newest_of
from odradek_pipeline.datasource.tiers import S3Tier, Tier, decode_epochs
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State
from odradek_pipeline.protocol.remote_storage.store import IndexKind
from odradek_pipeline.protocol.topic_partition import EpochEntry

EMPTY = (-1, 0)
"""The rank of a log without batches."""


@dataclass(slots=True)
class Cursor:
    """Where a walk is. Whoever needs nothing before a later offset raises it: segments before that are not opened."""

    offset: int


class Replica:
    """One copy of the log.

    Attributes:
        first: the first offset that it may have.
        newest: the log goes as far at least, even if there is no batch.
        cleaned: up to where compaction has come.
        rank: the latest leader epoch, and the end.
    """

    def __init__(self, segments: Sequence[tuple[Segment, int]], first: int, newest: int) -> None:
        """`segments`: each with the offset that its batches are below."""
        self._segments = segments
        self.first, self.newest = first, newest
        self.cleaned = 0
        self.rank = EMPTY

    def batches(self, start: int) -> Iterator[Place | Damage]:
        """From the batch with offset `start` on. A file that cannot be read is damage. Raises AuditError."""
        return self.walk(Cursor(start))

    def walk(self, cursor: Cursor) -> Iterator[Place | Damage]:
        """From the batch at the cursor on, which goes on with it."""
        for segment, before in self._segments:
            if before <= cursor.offset:
                continue
            try:
                for found in self._in(segment, before):
                    if isinstance(found, Damage):
                        yield found
                    elif found.header.next_offset > cursor.offset:
                        yield found
                        cursor.offset = max(cursor.offset, found.header.next_offset)
            except StoreUnavailableError as error:
                raise AuditError(f"{error}. Repeat the restore, which goes on, once it can.") from error
            except (DataSourceError, OSError) as error:
                if segment.remote is None or segment.remote.state is State.COPY_FINISHED:  # else it may be nowhere
                    yield Damage("unreadable", max(cursor.offset, segment.base_offset), _text(segment, error))

    def _in(self, segment: Segment, before: int) -> Iterator[Place | Damage]:
        with open_log(segment.log) as log:
            yield from batches_in(log, segment.base_offset, before)

    def aborted(self) -> list[AbortedTxn]:
        """What its transaction indexes say, as far as they can be read."""
        found: list[AbortedTxn] = []
        for segment, _ in self._segments:
            try:
                found += read_aborted(segment)
            except (DataSourceError, OSError):
                continue  # then the log's own markers have to do
        return found


def _text(segment: Segment, error: Exception) -> str:
    what = "it is missing in remote storage" if isinstance(error, RemoteFileMissing) else str(error)
    return f"{segment.log}: {what}"


class FolderReplica(Replica):
    """The log in a data folder.

    Attributes:
        log_start: what the data folder's checkpoint says of it, if anything.
    """

    def __init__(self, home: Home) -> None:
        """Raises DataSourceError, OSError."""
        segments = list_segments(home.folder).segments
        bases = [segment.base_offset for segment in segments]
        pairs = list(zip(segments, [*bases[1:], NO_END], strict=True)) if segments else []
        super().__init__(pairs, bases[0] if bases else 0, bases[-1] if bases else 0)
        self.home = home
        self.log_start = read_checkpoint(home.root, LOG_START).get(home.partition)
        self.cleaned = read_checkpoint(home.root, CLEANER).get(home.partition, 0)

    def survey(self) -> None:
        """Find out its rank."""
        for found in self.batches(0):
            if isinstance(found, Place):
                self.rank = max(self.rank[0], found.header.leader_epoch), max(found.header.next_offset, self.newest)

    def lineage(self) -> Lineage:
        """The leader epochs that the folder has written down; none if that cannot be read."""
        try:
            return Lineage.of_folder(self.home.folder)
        except (DataSourceError, OSError):
            return Lineage(())


class RemoteReplica(Replica):
    """Remote segments, none of which overlaps another. Its rank is known without reading it."""

    def __init__(self, tier: Tier, remote: Sequence[RemoteSegment], lineage: Lineage) -> None:
        parts = [
            (epoch, first, end + 1)
            for one in remote
            if one.state is State.COPY_FINISHED
            for epoch, first, end in one.ends_of_epochs()
            if not lineage.entries or lineage.epoch_for(end) == epoch
        ]
        end = max((end for _, _, end in parts), default=0)
        super().__init__(
            [(tier.files(one), _bound(one, after)) for one, after in zip_longest(remote, remote[1:])],
            min((first for _, first, _ in parts), default=remote[0].start_offset),
            end,
        )
        self._lineage = lineage
        self.rank = (max(epoch for epoch, _, _ in parts), end) if parts else EMPTY

    def _in(self, segment: Segment, before: int) -> Iterator[Place | Damage]:
        for found in super()._in(segment, before):
            if isinstance(found, Damage) or self._fits(found):
                yield found

    def _fits(self, found: Place) -> bool:
        header = found.header
        return not self._lineage.entries or self._lineage.epoch_for(header.next_offset - 1) == header.leader_epoch


def _bound(one: RemoteSegment, after: RemoteSegment | None) -> int:
    """What the offsets of a segment are below. Of one that was only found by its name the end is not known."""
    if one.state is State.COPY_FINISHED or one.end_offset > one.start_offset:
        return one.end_offset + 1
    return NO_END if after is None else after.start_offset


def remote_replicas(tier: Tier, remote: Iterable[RemoteSegment], lineage: Lineage) -> list[RemoteReplica]:
    """The remote segments of a log as copies of it, each in as many as overlap.

    What was never finished, or is being removed, comes after all that can be relied upon. So does the log of a segment
    on S3 as it would be if its manifest is lost.
    """
    known = list(remote)
    finished = [one for one in known if one.state is State.COPY_FINISHED]
    others = [replace(one, state=State.COPY_STARTED) for one in known if one.state is not State.COPY_FINISHED]
    if isinstance(tier, S3Tier):
        others += [replace(one, state=State.COPY_STARTED, txn_index_empty=True) for one in finished]
    return [RemoteReplica(tier, layer, lineage) for each in (finished, others) for layer in _layers(each)]


def _layers(segments: Iterable[RemoteSegment]) -> list[list[RemoteSegment]]:
    layers: list[list[RemoteSegment]] = []
    for one in sorted(segments, key=lambda one: (one.start_offset, -one.end_offset)):
        fitting = (layer for layer in layers if layer[-1].end_offset < one.start_offset)
        layer = next(fitting, None)
        if layer is None:
            layers.append(layer := [])
        layer.append(one)
    return layers


def lineage_of(own: Lineage, remote: Iterable[RemoteSegment], tier: Tier | None) -> Lineage:
    """The leader epochs of a log: its own, or those of its newest remote segment if these are later."""
    known = list(remote)
    newest = newest_of(known)
    if newest is None or own.last >= newest.epochs[-1].epoch:
        return own
    if tier is not None:
        try:
            return Lineage(decode_epochs(tier.index(newest, IndexKind.LEADER_EPOCH)))
        except StoreUnavailableError as error:
            raise AuditError(f"{error}. Repeat the restore once it can.") from error
        except (DataSourceError, OSError):
            pass  # then what the segments themselves say has to do
    return _of_segments(known)


def _of_segments(remote: Iterable[RemoteSegment]) -> Lineage:
    starts: dict[int, int] = {}
    for one in remote:
        for epoch, offset in one.epochs if one.state is State.COPY_FINISHED else ():
            starts[epoch] = min(offset, starts.get(epoch, offset))
    entries: list[EpochEntry] = []
    for epoch, offset in sorted(starts.items(), reverse=True):
        if not entries or offset < entries[0].start_offset:  # else a later epoch has taken its place
            entries.insert(0, EpochEntry(epoch, offset))
    return Lineage(entries)
