"""A log or a whole log manager on files in memory, and what to append to it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader, read_header
from protocol.records.build import Record, build_batch
from storage.append_types import AppendInfo, AppendOrigin, LogConfig
from storage.files import FileSystem
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.log.log_services import LogServices
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import QueuedWorkers

TOPIC_ID = UUID(int=0x1234)
T = TypeVar("T")

NOW = 1_700_000_000_000


def create_log(manager: LogManager, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> UnifiedLog:
    """A new, empty log, on disk. Raises KafkaStorage."""
    log = manager.plan_log(topic, partition, topic_id, config, leader_epoch=0)()
    manager.sync_folders()
    manager.adopt(log)
    return log


class MachineStopped(BaseException):
    """The power went in the middle of an operation."""


READS = frozenset({"pread", "pread_nowait", "listdir", "size", "exists"})
"""Operations that change nothing: a power failure before one of them is one before the next change."""


def stop_after(survived: int) -> Callable[..., None]:
    """What a file system is to call before each operation: it lets `survived` changes pass, then stops the machine."""
    changes = itertools.count()

    def before(operation: str = "", *_: object) -> None:
        if operation not in READS and next(changes) >= survived:
            raise MachineStopped

    return before


def copied_before_each_change(fs: MemoryFileSystem) -> list[MemoryFileSystem]:
    """Filled with the disk as it is before each change that follows."""
    copies: list[MemoryFileSystem] = []

    def before(operation: str, _: str) -> None:
        if operation not in READS:
            copies.append(fs.copy())

    fs.hook = before
    return copies


class Rig:
    """One node's storage in virtual time. `restart` is a stop and a start; `crash` a power failure and a start."""

    def __init__(self, fs: FileSystem | None = None, config: LogConfig | None = None, root: str = "/data") -> None:
        self.fs = fs or MemoryFileSystem()
        self.config = config or LogConfig()
        self.root = root
        self.clock = ManualClock(NOW)
        self.workers = QueuedWorkers()
        self._ids = itertools.count(1)
        self.manager = self.open()

    @property
    def files(self) -> MemoryFileSystem:
        """The file system of a rig whose files are in memory, for what only such a one can do."""
        assert isinstance(self.fs, MemoryFileSystem)
        return self.fs

    def new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    def open(self) -> LogManager:
        self.services = LogServices(
            self.fs, self.clock, self.workers, random.Random(0), Shortages(self.clock.monotonic_ms)
        )
        self.dirs = LogDirs.open(self.fs, [self.root], node_id=1, new_id=self.new_id, now_ms=self.clock.wall_ms())
        return LogManager.open(
            self.services,
            self.dirs,
            lambda _: self.config,
            new_id=self.new_id,
            topic_id_of=lambda _: TOPIC_ID,
            recovery_threads=1,
        )

    def log(self, topic: str = "t", partition: int = 0) -> UnifiedLog:
        """The partition's log, made if it is not there."""
        found = self.manager.get(topic, partition)
        return found or create_log(self.manager, topic, partition, TOPIC_ID, self.config)

    def reopen(self) -> UnifiedLog:
        """Start again over what is on disk."""
        self.manager = self.open()
        return self.log()

    def restart(self) -> UnifiedLog:
        """Stop cleanly, and start again."""
        self.manager.close()
        return self.reopen()

    def kill(self) -> UnifiedLog:
        """The process dies, the machine goes on: nothing written is lost."""
        self.workers.drop_all()
        self.manager.release()
        return self.reopen()


def batch(
    *values: bytes, timestamp: int = NOW, producer_id: int = -1, producer_epoch: int = 0, sequence: int = 0
) -> memoryview:
    """A batch of one record per value, a millisecond apart."""
    records = [Record(i, timestamp + i, None, value) for i, value in enumerate(values or (b"value",))]
    if producer_id < 0:
        return memoryview(build_batch(records))
    return memoryview(
        build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)
    )


def append(log: UnifiedLog, data: memoryview | None = None, *, epoch: int = 0, now_ms: int = NOW) -> AppendInfo:
    """Append as a client's leader does."""
    data = batch() if data is None else data
    return log.append_as_leader(data, leader_epoch=epoch, origin=AppendOrigin.CLIENT, now_ms=now_ms)


def headers_in(data: bytes | bytearray | memoryview) -> list[BatchHeader]:
    """Headers of the whole batches in a range of a log."""
    found, at = [], 0
    while at + 61 <= len(data) and at + (header := read_header(data, at)).size <= len(data):
        found.append(header)
        at += header.size
    return found


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def read(log: UnifiedLog, offset: int, max_bytes: int = 1 << 20, *, min_one: bool = True) -> Buffer:
    """What a reader up to the log's end gets."""
    plan = log.plan_read(offset, max_bytes, log.end, min_one)
    data = plan.try_read()
    return now(plan.read()) if data is None else data


def contents(log: UnifiedLog) -> list[bytes]:
    """The log's batches from its start to its end, as bytes."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = read(log, offset)
        at = 0
        for header in headers_in(data):
            found.append(bytes(data[at : at + header.size]))
            at += header.size
            offset = header.next_offset
        assert at, f"nothing at {offset}"
    return found
