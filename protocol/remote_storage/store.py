"""The port to remote storage, as the broker needs it (Kafka's `RemoteStorageManager`).

Every method blocks, and is called in a worker thread; none is called for one segment twice at once, except reads. A
store keeps at most a chunk of a segment in memory at a time. It tries again what may work at the second attempt, and
gives up in the end, with RemoteStoreError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from .segment import RemoteSegment

COPY_CHUNK = 1 << 20
"""Bytes of a log that are in memory at a time while it is copied."""


class RemoteStoreError(Exception):
    """The store has not done what it was asked for; it may, another time."""


class RemoteObjectMissingError(RemoteStoreError):
    """The store answers, and does not have the object."""


class RemoteObjectDamagedError(RemoteStoreError):
    """The store has the object, and what is in it is not what was stored, or cannot be read here."""


class RemoteChunkDamagedError(RemoteObjectDamagedError):
    """Of the object only a part is damaged."""


class IndexKind(Enum):
    """What is stored of a segment besides its log (Kafka's `RemoteStorageManager.IndexType`)."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producerSnapshot"
    LEADER_EPOCH = "leaderEpoch"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class SegmentData:
    """The content of a segment to copy: `read(size, position)` reads its log, of `size` bytes.

    Of the indexes, that of transactions is there only if it has entries.
    """

    size: int
    read: Callable[[int, int], bytes]
    indexes: Mapping[IndexKind, bytes]

    def chunks(self) -> Iterator[bytes]:
        """The log, a piece at a time. Raises RemoteStoreError if it is shorter than it should be."""
        position = 0
        while position < self.size:
            piece = self.read(min(COPY_CHUNK, self.size - position), position)
            if not piece:
                raise RemoteStoreError(f"the segment's log ends at {position} of {self.size} bytes")
            yield piece
            position += len(piece)


class StoredObject(NamedTuple):
    """An object in the store, and the segment that it is of; None for a name that is no segment's."""

    name: str
    size: int
    topic_id: UUID | None
    partition: int
    segment_id: UUID | None


class RemoteStore(Protocol):
    """Where remote segments are. Every method raises RemoteStoreError."""

    def check(self) -> None:
        """Raises RemoteStoreError, with a sentence for people, if the store cannot be used at all."""

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        """Store a segment; it is there, and stays, when this returns. What is returned is its `custom` metadata."""

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        """`size` bytes of the segment's log from a position on, fewer only at its end."""

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        """An index of the segment."""

    def delete(self, segment: RemoteSegment) -> None:
        """Remove all that is stored of the segment; fine if it is gone, or was never there."""

    def names(self, segment: RemoteSegment) -> list[str]:
        """The names of the objects that a segment has, as `objects` has them."""

    def objects(self) -> Iterator[StoredObject]:
        """All objects, also those that nothing refers to."""


class ExchangeableStore:
    """The store that is `behind` it now: a test kit puts another one there."""

    def __init__(self, behind: RemoteStore) -> None:
        self.behind = behind

    def check(self) -> None:
        self.behind.check()

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        return self.behind.copy(segment, data)

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        return self.behind.read(segment, position, size)

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        return self.behind.index(segment, kind)

    def delete(self, segment: RemoteSegment) -> None:
        self.behind.delete(segment)

    def names(self, segment: RemoteSegment) -> list[str]:
        return self.behind.names(segment)

    def objects(self) -> Iterator[StoredObject]:
        return self.behind.objects()
