"""The remote segments of one partition, by leader epoch (`RemoteLogMetadataCache`, `RemoteLogLeaderEpochState`).

Theory of operation. Records of `__remote_log_metadata` are the truth; this is what they say, replayed in their order.

| state of a segment | next states                    |
| ------------------ | ------------------------------ |
| (none)             | COPY_STARTED                   |
| COPY_STARTED       | COPY_FINISHED, DELETE_STARTED  |
| COPY_FINISHED      | DELETE_STARTED                 |
| DELETE_STARTED     | DELETE_FINISHED, and forgotten |

The same state again changes nothing; any other change is left out, with a line in the log. A segment can be read while
it is COPY_FINISHED and an epoch refers to it. For each leader epoch there is a map from first offsets to segments. Two
leaders may have copied the same offsets: who has copied further pushes the others out of the map, and what no epoch
refers to is removed by whoever leads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from uuid import UUID

import structlog

from ..remote_log_records import (
    RemoteLogRecord,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
)
from .segment import RemoteSegment, State, TopicIdPartition, partition_of, segment_of

logger = structlog.get_logger(__name__)

_NEXT = {
    None: {State.COPY_STARTED},
    State.COPY_STARTED: {State.COPY_STARTED, State.COPY_FINISHED, State.DELETE_STARTED},
    State.COPY_FINISHED: {State.COPY_FINISHED, State.DELETE_STARTED},
    State.DELETE_STARTED: {State.DELETE_STARTED, State.DELETE_FINISHED},
}


@dataclass(slots=True)
class _Epoch:
    """What may be read of one leader epoch: segments by the first offset, and the highest offset ever copied."""

    starts: list[int] = field(default_factory=list)
    by_start: dict[int, UUID] = field(default_factory=dict)
    highest: int = -1

    def put(self, start: int, end: int, segment_id: UUID) -> None:
        if self.highest <= end:
            while self.starts and self.starts[-1] >= start:
                del self.by_start[self.starts.pop()]
        if start not in self.by_start:
            insort(self.starts, start)
        self.by_start[start] = segment_id
        self.highest = max(self.highest, end)

    def remove(self, start: int, segment_id: UUID) -> None:
        if self.by_start.get(start) == segment_id:
            del self.by_start[start]
            self.starts.remove(start)

    def floor(self, offset: int) -> UUID | None:
        place = bisect_right(self.starts, offset) - 1
        return self.by_start[self.starts[place]] if place >= 0 else None


class RemoteSegments:
    """The segments of one partition."""

    __slots__ = ("_aborting", "_by_id", "_epochs", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_id: dict[UUID, RemoteSegment] = {}
        self._epochs: dict[int, _Epoch] = {}
        self._aborting: list[tuple[int, UUID]] = []
        """First offset and id of each finished segment with a transaction index, ascending: often few of many."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[RemoteSegment]:
        """All that are not forgotten, in the order of their offsets."""
        return iter(sorted(self._by_id.values(), key=_place))

    def clear(self) -> None:
        """Forget all, for the records to be replayed."""
        self._by_id.clear()
        self._epochs.clear()
        self._aborting.clear()

    def get(self, segment_id: UUID) -> RemoteSegment | None:
        return self._by_id.get(segment_id)

    def take(self, segment: RemoteSegment) -> bool:
        """Take over a segment in its next state; False, with a line in the log, if it cannot be in that state."""
        known = self._by_id.get(segment.id)
        before = None if known is None else known.state
        if segment.state not in _NEXT.get(before, ()):
            logger.error(
                "impossible state of a remote segment left out",
                partition=self.name,
                segment=str(segment.id),
                state=segment.state.name,
                after="none" if before is None else before.name,
            )
            return False
        self._by_id[segment.id] = segment
        if segment.state is before:
            return True
        if segment.state is State.COPY_FINISHED:
            for epoch, first, end in segment.ends_of_epochs():
                self._epochs.setdefault(epoch, _Epoch()).put(first, end, segment.id)
            if not segment.txn_index_empty:
                insort(self._aborting, (segment.start_offset, segment.id))
        elif segment.state is State.DELETE_STARTED:
            for epoch, first, _ in segment.ends_of_epochs():
                self._epochs.setdefault(epoch, _Epoch()).remove(first, segment.id)
            self._aborting = [one for one in self._aborting if one[1] != segment.id]
        elif segment.state is State.DELETE_FINISHED:
            del self._by_id[segment.id]
        return True

    # -- what may be read

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The segment that has an offset of a leader epoch."""
        known = self._epochs.get(epoch)
        segment_id = None if known is None else known.floor(offset)
        if segment_id is None:
            return None
        segment = self._by_id[segment_id]
        return segment if offset <= segment.end_in(epoch) else None

    def highest_offset(self, epoch: int, log_start: int) -> int:
        """The highest offset of a leader epoch that is copied, or was and now lies below the log's start; -1 if none.

        A copy that was removed again, as its end became known too late, counts for nothing: else nobody would make
        another one.
        """
        known = self._epochs.get(epoch)
        if known is None:
            return -1
        there = self._by_id[known.by_start[known.starts[-1]]].end_in(epoch) if known.starts else -1
        return max(there, min(known.highest, log_start - 1))

    def readable(self, epochs: Iterable[int]) -> Iterator[RemoteSegment]:
        """What may be read of these leader epochs, which ascend: by offset, each segment once."""
        seen: set[UUID] = set()
        for known in filter(None, map(self._epochs.get, epochs)):
            for start in known.starts:
                segment_id = known.by_start[start]
                if segment_id not in seen:
                    seen.add(segment_id)
                    yield self._by_id[segment_id]

    def aborting(self, offset: int) -> Iterator[RemoteSegment]:
        """The finished segments with a transaction index that begin at an offset or later, by offset."""
        place = bisect_left(self._aborting, offset, key=itemgetter(0))
        return filter(None, (self._by_id.get(segment_id) for _, segment_id in self._aborting[place:]))

    def unwanted(self, log_start: int, first_epoch: int) -> list[RemoteSegment]:
        """What no epoch refers to (copies that were given up or superseded, and what is half deleted), what lies below
        the log's start, and what is of epochs before the log's first alone."""
        referred: set[UUID] = set().union(*(epoch.by_start.values() for epoch in self._epochs.values()))
        found = [
            one
            for one in self._by_id.values()
            if one.id not in referred or one.end_offset < log_start or one.epochs[-1].epoch < first_epoch
        ]
        return sorted(found, key=_place)

    @property
    def size(self) -> int:
        """Bytes of the logs of all whose copy is finished."""
        return sum(one.size for one in self._by_id.values() if one.state is State.COPY_FINISHED)


def _place(one: RemoteSegment) -> tuple[int, int]:
    return one.start_offset, one.event_timestamp


def replay(found: RemoteLogRecord, of: Callable[[TopicIdPartition], RemoteSegments]) -> None:
    """Let a record of `__remote_log_metadata` count; `of` has the segments of a partition.

    Raises ValueError for a record that no broker writes.
    """
    if isinstance(found, RemoteLogSegmentMetadataRecord):
        segment = segment_of(found)
        of(segment.partition).take(segment)
    elif isinstance(found, RemoteLogSegmentMetadataUpdateRecord):
        named = found.remote_log_segment_id
        segments = of(partition_of(named.topic_id_partition))
        known = None if named.id is None else segments.get(named.id)
        if known is None:
            logger.warning("update of an unknown remote segment left out", segment=str(named.id))
            return
        next_state = known.with_state(
            State(found.remote_log_segment_state),
            broker_id=found.broker_id,
            now_ms=found.event_timestamp_ms,
            custom=found.custom_metadata,
        )
        segments.take(next_state)
