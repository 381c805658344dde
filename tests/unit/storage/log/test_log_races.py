"""What worker threads and the loop do to one log at the same time, one turn after the other."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from protocol.errors import KafkaStorage, NotLeaderOrFollower
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.folders.log_checkpoints import LOG_START, RECOVERY_POINT, OffsetCheckpoint
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from storage.segments.index import OffsetIndex, TimeIndex, TimestampOffset
from storage.segments.segment import LogSegment
from tests.doubles.files import Fault, MemoryFileSystem
from tests.doubles.workers import QueuedWorkers
from tests.unit.storage.cleaner.cleaning import end_txn, put
from tests.unit.storage.support import TOPIC_ID, Rig, append, batch, create_log, headers_in, now

T = TypeVar("T")


def test_aborted_transactions_of_a_segment_that_goes_while_it_is_read_are_told() -> None:
    rig = Rig(config=LogConfig(retention_ms=-1, retention_bytes=0))
    log = rig.log()
    put(log, (b"a", b"1"), producer_id=7, transactional=True)
    end_txn(log, 7, commit=False)
    log.roll()
    append(log)
    plan = log.plan_read(0, 1 << 20, log.end, True)
    data = plan.try_read()
    assert data is not None
    assert [one.is_control for one in headers_in(data)] == [False, True]
    delete_old_segments(log, log.log_end_offset)
    assert [txn.producer_id for txn in plan.aborted_transactions(len(data), log.log_end_offset)] == [7]


class _SeenByAThread(array):  # type: ignore[type-arg]
    """An array beside which another thread runs as soon as it has one entry more."""

    thread: Callable[[], Any]

    def append(self, value: int) -> None:
        super().append(value)
        self.thread()


def test_an_offset_index_can_be_looked_up_in_the_middle_of_an_append() -> None:
    index = OffsetIndex(MemoryFileSystem(), "/i", 0, 1 << 10)
    index.reset()
    index.append(3, 100)
    found: list[int] = []
    offsets, positions = (_SeenByAThread("I", column) for column in index.load())
    offsets.thread = positions.thread = lambda: found.append(index.lookup(9))
    index._entries = offsets, positions
    index.append(9, 200)
    assert found == [100, 200]


def test_a_time_index_can_be_looked_up_in_the_middle_of_an_append() -> None:
    index = TimeIndex(MemoryFileSystem(), "/t", 0, 1 << 10)
    index.reset()
    index.maybe_append(10, 3)
    found: list[TimestampOffset] = []
    timestamps, offsets = (_SeenByAThread(column.typecode, column) for column in index.load())
    timestamps.thread = offsets.thread = lambda: found.append(index.lookup(30))
    index._entries = timestamps, offsets
    index.maybe_append(20, 9)
    assert found == [TimestampOffset(10, 3), TimestampOffset(20, 9)]


class _ComparedByAThread(int):
    """An offset to search for. Whenever the thread compares it, the loop goes on."""

    loop: Callable[[], Any]

    def __ge__(self, other: int) -> bool:
        self.loop()
        return int(self) >= other


def test_the_last_batch_is_found_although_another_one_is_appended_meanwhile() -> None:
    log = Rig().log()
    append(log, batch(b"searched for"))
    size = log.size
    wanted = _ComparedByAThread(0)
    wanted.loop = lambda: append(log, batch(b"appended meanwhile"))
    segment = log.segments.active
    assert segment.locate(wanted, segment.read) == (0, size)


def _seen_meanwhile(action: Callable[[], Any], look: Callable[[], T]) -> list[T]:
    """What another thread may see while this is done: one look before each of its lines."""
    seen: list[T] = []

    def trace(*_: Any) -> Any:
        seen.append(look())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return seen


def _checkpointed_start(rig: Rig) -> int | None:
    """What a checkpoint that is written now has as the start of t-0."""
    rig.manager.checkpoint_log_start_offsets()
    return OffsetCheckpoint(rig.fs, rig.root, LOG_START).read().get(TopicPartition("t", 0))


def _segments_of_two_batches() -> tuple[Rig, UnifiedLog]:
    rig = Rig(config=LogConfig(retention_ms=-1))
    log = rig.log()
    for _ in range(3):
        append(log)
        append(log)
        log.roll()
    return rig, log


def test_a_start_in_the_middle_of_a_segment_is_in_a_checkpoint_written_while_segments_are_replaced() -> None:
    rig, log = _segments_of_two_batches()
    log.increment_log_start_offset(1)
    replaced = list(log.segments)[:2]
    compacted = LogSegment.open(rig.fs, log.folder, 0, rig.config)
    seen = _seen_meanwhile(lambda: log.segments.replace(replaced, compacted), lambda: _checkpointed_start(rig))
    assert set(seen) == {1}
    assert [segment.base_offset for segment in log.segments] == [0, 4, 6]


def test_the_start_is_in_a_checkpoint_written_while_the_segments_before_it_are_removed() -> None:
    rig, log = _segments_of_two_batches()
    log.increment_log_start_offset(4)
    seen = _seen_meanwhile(lambda: delete_old_segments(log, log.log_end_offset), lambda: _checkpointed_start(rig))
    assert set(seen) == {4}, "until their files are renamed a crash may bring them back"
    assert rig.kill().log_start_offset == 4


class _LateWorkers(QueuedWorkers):
    """The work is done, but the loop has not heard of it yet."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], Any]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed on, later
            late = error
            super().submit(lambda: self._raise(late), done, failed)
        else:
            super().submit(lambda: None, done, failed)

    @staticmethod
    def _raise(error: Exception) -> None:
        raise error


def test_a_flush_that_failed_just_before_a_stop_is_not_made_good_by_another() -> None:
    rig = Rig(config=LogConfig(flush_messages=1))
    log = rig.log()
    rig.workers.run_all()
    rig.files.inject(Fault("fdatasync", 1, path_part=".log"))
    late = _LateWorkers()
    object.__setattr__(rig.services, "workers", late)
    append(log)
    with pytest.raises(KafkaStorage):
        log.close()


def test_a_checkpoint_that_is_being_written_tells_what_will_be_in_it() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    checkpoint = OffsetCheckpoint(fs, "/data", RECOVERY_POINT)
    checkpoint.write(dict)
    key = TopicPartition("t", 0)
    seen: list[bool] = []
    answered = threading.Event()

    def ask() -> None:
        seen.append(key in checkpoint)
        answered.set()

    other = threading.Thread(target=ask)

    def meanwhile(operation: str, _: str) -> None:
        if operation == "rename":
            fs.hook = None
            other.start()
            assert answered.wait(10), "who asks does not wait for the disk"

    fs.hook = meanwhile
    checkpoint.write(lambda: {key: 5})
    other.join()
    assert seen == [True]


def test_a_deleted_log_reads_nothing_of_the_one_that_took_its_place() -> None:
    rig = Rig()
    log = rig.log()
    append(log, batch(b"old"))
    plan = log.plan_read(0, 1 << 20, log.end, True)
    rig.manager.delete_log_soon("t", 0)
    anew = create_log(rig.manager, "t", 0, TOPIC_ID, rig.config)
    append(anew, batch(b"new"))
    with pytest.raises(NotLeaderOrFollower):
        now(plan.read())


def test_a_deleted_log_leaves_no_descriptor_open() -> None:
    rig = Rig()
    log = rig.log()
    append(log)
    plan = log.plan_read(0, 1 << 20, log.end, True)
    rig.manager.delete_log_soon("t", 0)
    create_log(rig.manager, "t", 0, TOPIC_ID, rig.config).release_files()
    with pytest.raises(NotLeaderOrFollower):
        now(plan.read())
    assert rig.files.open_files == 0
