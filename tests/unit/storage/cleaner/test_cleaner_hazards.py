"""Compaction beside bad segments, full disks, and topics that are deleted and recreated."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from protocol.records.batch import read_header
from protocol.records.build import encode_record, pack_batch
from storage.cleaner import cleaner as cleaner_module
from storage.cleaner.copying import copy_segment
from storage.cleaner.log_cleaner import CleanerConfig
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault, Unsynced
from tests.doubles.workers import QueuedWorkers
from tests.unit.storage.cleaner.cleaning import COMPACT, clean, cleaner, kept, keyed, put, records, roll, run
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, contents, create_log


def overwritten(rig: Rig) -> UnifiedLog:
    """A log in which a key has two values, and the first one is ready to be cleaned away."""
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    return log


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
    assert [record.key for record in records(log)] == [b"a", b"b", b"c", b"last"]


def test_a_full_disk_leaves_no_half_made_segment() -> None:
    rig = Rig(config=COMPACT)
    log = overwritten(rig)
    rig.files.inject(Fault("open", 1, errno.ENOSPC, path_part=".index.cleaned"))
    clean(rig)
    assert not [name for name in rig.files.listdir(log.folder) if name.endswith(".cleaned")]


def test_a_device_that_fails_before_the_swap_takes_its_folder_offline() -> None:
    rig = Rig(config=COMPACT)
    log, other = rig.log(), rig.log("other")
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    rig.files.inject(Fault("pwrite", 1, errno.EIO, path_part=".cleaned"))
    clean(rig)
    assert log.is_offline and other.is_offline
    rig.files.crash(Unsynced.LOST)
    assert [record.value for record in kept(rig.reopen())] == [b"1", b"2"]


def test_rolls_that_find_no_room_hold_no_descriptors() -> None:
    rig = Rig(config=COMPACT)
    log = rig.log()
    put(log, (b"a", b"1"))
    before = rig.files.open_files
    for _ in range(3):
        rig.files.inject(Fault("open", 1, errno.ENOSPC, path_part="1.index"))
        with pytest.raises(OSError, match="injected"):
            log.roll()
    assert rig.files.open_files == before


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
            anew = create_log(rig.manager, "t", 0, TOPIC_ID, rig.config)
            made.append(set(rig.fs.listdir(anew.folder)))

        workers.at, workers.meanwhile = workers.calls + number, again
        run(rig, cleaner(rig).run_once())
        if not made:
            break
        assert set(rig.fs.listdir("/data/t-0")) == made[0], number
    assert number > 3


def test_an_error_that_nobody_foresaw_stops_one_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(config=COMPACT)
    for number, topic in enumerate(("bad", "good")):
        log = rig.log(topic)
        for _ in range(3 - number):
            put(log, (b"a", b"1"))
        roll(log)
    rig.workers.run_all()

    def breaking(segment: Any, cleaned: Any, rules: Any) -> Any:
        if "bad" in segment.folder:
            raise OverflowError
        return copy_segment(segment, cleaned, rules)

    monkeypatch.setattr(cleaner_module, "copy_segment", breaking)
    one = cleaner(rig)
    assert [run(rig, one.run_once()) for _ in range(3)] == [True, True, False]
    assert [len(records(rig.log(topic))) for topic in ("bad", "good")] == [4, 2]


@pytest.mark.parametrize("config", [CleanerConfig(max_bytes_per_second=0.0), CleanerConfig(load_factor=0.0)])
def test_settings_with_which_nothing_can_be_cleaned_may_be_mended(config: CleanerConfig) -> None:
    rig = Rig(config=COMPACT)
    log = overwritten(rig)
    one = cleaner(rig, config)
    assert [run(rig, one.run_once()) for _ in range(2)] == [True, False], "it is left alone for a while"
    assert len(records(log)) == 3
    clean(rig)
    assert len(records(log)) == 2


def test_a_recreated_topic_is_not_left_alone_for_its_predecessors_failure() -> None:
    rig = Rig(config=COMPACT)
    one = cleaner(rig)
    for succeeds in (False, True):
        log = overwritten(rig)
        if not succeeds:
            rig.files.inject(Fault("open", 1, errno.ENOSPC, path_part=".index.cleaned"))
        assert run(rig, one.run_once())
        assert (len(records(log)) == 2) is succeeds
        rig.manager.delete_log_soon(log.topic, log.partition)


def test_a_tombstone_that_is_to_stay_for_ever_stays() -> None:
    rig = Rig(config=replace(COMPACT, delete_retention_ms=(1 << 63) - 1))
    log = rig.log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    roll(log)
    rig.workers.run_all()
    clean(rig)
    assert [(record.key, record.value) for record in records(log)] == [(b"b", b"1"), (b"a", None), (b"last", b"record")]


def test_timestamps_that_overflow_are_kept_as_java_reads_them() -> None:
    rig = Rig(config=replace(COMPACT, message_timestamp_type="CreateTime"))
    log = rig.log()
    header = read_header(keyed((b"a", b"1"), (b"b", b"1")))
    section = b"".join(
        encode_record(delta, NOW - (1 << 63) + delta, key, b"1") for delta, key in enumerate((b"a", b"b"))
    )
    data = pack_batch(section, 2, last_offset_delta=1, base_timestamp=-(1 << 63), max_timestamp=header.max_timestamp)
    append(log, memoryview(data))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    clean(rig)
    assert [record.key for record in records(log)] == [b"b", b"a", b"last"]
    assert read_header(contents(log)[0]).max_timestamp == NOW + 1


@pytest.mark.parametrize(
    "operation, error",
    [("open", errno.EMFILE), ("fsync_dir", errno.EMFILE), ("fsync_dir", errno.ENOSPC), ("rename", errno.ENOSPC)],
)
def test_what_passes_fails_no_log_wherever_cleaning_is(operation: str, error: int) -> None:
    for failing in itertools.count(1):
        rig = Rig(config=COMPACT)
        log = rig.log()
        put(log, (b"a", b"1"), (b"b", b"1"))
        put(log, (b"a", b"2"))
        roll(log)
        rig.workers.run_all()
        fault = Fault(operation, failing, error)
        rig.files.inject(fault)
        with contextlib.suppress(OSError):  # of a checkpoint, which is written again with the next log
            clean(rig)
        if fault.number:  # it was through before
            break
        assert not log.is_offline
        clean(rig)
        assert [(record.key, record.value) for record in kept(log)] == [(b"b", b"1"), (b"a", b"2")]
        assert not [name for name in rig.files.listdir(log.folder) if name.endswith((".cleaned", ".swap"))]
    assert failing > 3


def test_a_stop_while_a_swap_waits_for_room_lets_the_next_start_finish_it() -> None:
    rig = Rig(config=COMPACT)
    log = overwritten(rig)
    before = contents(log)

    refused = 0

    def full(operation: str, path: str) -> None:
        nonlocal refused
        if operation == "rename" and path.endswith(".log.swap"):
            refused += 1
            raise OSError(errno.ENOSPC, "no space left on device", path)

    rig.files.hook = full
    cleaning = cleaner(rig)

    async def stop_meanwhile() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cleaning.run_once())
            while refused < 3:
                assert not log.is_offline
                await rig.clock.sleep(DESCRIPTORS_RETRY_MS)
            assert contents(log) == before
            await cleaning.stop()

    run(rig, stop_meanwhile())
    rig.files.hook = None
    assert not log.is_offline
    assert [(record.key, record.value) for record in kept(rig.restart())] == [(b"a", b"2")]
