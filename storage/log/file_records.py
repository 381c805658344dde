"""Records that stay in their segment's file until they are sent (Kafka's FileRecords)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from protocol.errors import KafkaError, KafkaStorage
from protocol.primitives import Buffer, UnreadBytes
from storage.segments.segment import LogSegment
from storage.segments.segment_file import WouldBlockError
from storage.workers import Workers, folder_lane


class FileRecords(UnreadBytes):
    """`size` bytes of a segment's file from `position` on; they cost no memory, however slow the client is.

    What is in a file does not change, and one that is held stays readable when its segment is removed.
    """

    __slots__ = ("_failure", "_position", "_segment", "_size", "_workers")

    def __init__(
        self,
        segment: LogSegment,
        position: int,
        size: int,
        workers: Workers,
        failure: Callable[[OSError], KafkaError],
    ) -> None:
        self._segment = segment
        self._position = position
        self._size = size
        self._workers = workers
        self._failure = failure

    def __len__(self) -> int:
        return self._size

    def hold(self) -> Callable[[], None]:
        try:
            self._segment.file.acquire()
        except OSError as error:
            raise self._failed(error) from error
        return self._segment.file.release

    def try_read(self, at: int, size: int) -> Buffer | None:
        try:
            return self._segment.file.read_nowait(size, self._position + at)
        except WouldBlockError:
            return None
        except OSError as error:
            raise self._failed(error) from error

    async def read(self, at: int, size: int) -> Buffer:
        try:
            pread = self._segment.file.acquire().pread
            workers = self._workers.lane(folder_lane("read", self._segment.folder))
            try:
                data = await workers.call(partial(pread, size, self._position + at))
            finally:
                self._segment.file.release()
        except OSError as error:
            raise self._failed(error) from error
        if len(data) < size:
            raise KafkaStorage(f"{self._segment.file.path} ends before its records do.")
        return data

    def _failed(self, error: OSError) -> KafkaError:
        if isinstance(error, FileNotFoundError):  # retention or a deletion of the topic, not the device
            return KafkaStorage(f"{self._segment.file.path} was removed.")
        return self._failure(error)
