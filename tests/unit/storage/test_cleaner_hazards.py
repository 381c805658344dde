"""Compaction beside bad segments, full disks, and topics that are deleted and made anew."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from storage.memory_files import Fault, MemoryFileSystem
from storage.workers import QueuedWorkers
from tests.unit.storage.cleaning import clean, cleaner, put, records, run
from tests.unit.storage.support import TOPIC_ID, Rig
from tests.unit.storage.test_cleaner import COMPACT, roll


def test_a_segment_that_cannot_be_read_to_its_end_is_not_cleaned() -> None:
    rig = Rig(config=COMPACT)
    log = rig.log()
    put(log, (b"a", b"1"))
    broken_at = log.segments.active.size
    put(log, (b"b", b"1"))
    put(log, (b"c", b"1"))
    size = log.segments.active.size
    roll(log)
    file = log.segments.first.file.open()
    length = file.pread(4, broken_at + 8)
    file.pwrite(b"\x00\x00\x00\x01", broken_at + 8)
    rig.workers.run_all()
    clean(rig)
    assert log.segments.first.size == size
    file = log.segments.first.file.open()
    file.pwrite(length, broken_at + 8)
    assert [one.key for one in records(log)] == [b"a", b"b", b"c", b"last"]


def test_a_full_disk_leaves_no_half_made_segment() -> None:
    rig = Rig(config=COMPACT)
    assert isinstance(rig.fs, MemoryFileSystem)
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    rig.fs.inject(Fault("open", 1, errno.ENOSPC, path_part=".index.cleaned"))
    clean(rig)
    assert not [name for name in rig.fs.listdir(log.folder) if name.endswith(".cleaned")]


def test_rolls_that_find_no_room_hold_no_descriptors() -> None:
    rig = Rig(config=COMPACT)
    assert isinstance(rig.fs, MemoryFileSystem)
    log = rig.log()
    put(log, (b"a", b"1"))
    before = rig.fs.open_files
    for _ in range(3):
        rig.fs.inject(Fault("open", 1, errno.ENOSPC, path_part="1.index"))
        with pytest.raises(OSError, match="injected"):
            log.roll()
    assert rig.fs.open_files == before


class _Meanwhile(QueuedWorkers):
    """Calls `meanwhile` before the work that its number says."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.at = 0
        self.meanwhile: Callable[[], None] = lambda: None

    async def call(self, work: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls == self.at:
            self.meanwhile()
        return work()


def test_a_topic_made_anew_during_a_cleaning_gets_nothing_of_the_old_one() -> None:
    """At whatever moment that happens."""
    for number in range(1, 100):
        rig = Rig(config=COMPACT)
        workers = _Meanwhile()
        rig.workers = workers
        object.__setattr__(rig.services, "workers", workers)
        log = rig.log()
        put(log, (b"a", b"1"))
        put(log, (b"a", b"2"))
        roll(log)
        workers.run_all()
        made: list[set[str]] = []

        def again(rig: Rig = rig, made: list[set[str]] = made) -> None:
            rig.manager.delete_log_soon("t", 0)
            anew = rig.manager.create_log("t", 0, TOPIC_ID, rig.config)
            made.append(set(rig.fs.listdir(anew.folder)))

        workers.at, workers.meanwhile = workers.calls + number, again
        run(rig, cleaner(rig).run_once())
        if not made:
            break
        assert set(rig.fs.listdir("/data/t-0")) == made[0], number
    assert number > 3
