"""Remote storage that fails when a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from protocol.remote_storage.segment import RemoteSegment
from protocol.remote_storage.store import IndexKind, RemoteStore, RemoteStoreError, SegmentData, StoredObject

T = TypeVar("T")


class FlakyStore:
    """`behind` it is the store; `coming` has what becomes of the next calls: `fine`, or failed `before` or `after`.

    A call that fails before has done nothing, one that fails after has done all.
    """

    def __init__(self, behind: RemoteStore) -> None:
        self.behind = behind
        self.coming: list[str] = []

    def _call(self, work: Callable[[], T]) -> T:
        fate = self.coming.pop(0) if self.coming else "fine"
        if fate == "before":
            raise RemoteStoreError("the store says no")
        result = work()
        if fate == "after":
            raise RemoteStoreError("the store has not said that it is done")
        return result

    def check(self) -> None:
        self.behind.check()

    def copy(self, segment: RemoteSegment, data: SegmentData) -> bytes | None:
        return self._call(lambda: self.behind.copy(segment, data))

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        return self._call(lambda: self.behind.read(segment, position, size))

    def index(self, segment: RemoteSegment, kind: IndexKind) -> bytes:
        return self._call(lambda: self.behind.index(segment, kind))

    def delete(self, segment: RemoteSegment) -> None:
        self._call(lambda: self.behind.delete(segment))

    def names(self, segment: RemoteSegment) -> list[str]:
        return self.behind.names(segment)

    def objects(self) -> Iterator[StoredObject]:
        return self.behind.objects()
