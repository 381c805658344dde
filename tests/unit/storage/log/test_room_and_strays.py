"""Retention where there is no room, and what earlier stops leave in a folder."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from protocol.errors import KafkaStorage
from storage.append_types import LogConfig
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.cleaner.cleaning import COMPACT, clean, put, records, roll
from tests.unit.storage.log.retaining import DAY, bases, filled, names
from tests.unit.storage.support import Rig, append, batch, contents


def memory(rig: Rig) -> MemoryFileSystem:
    return rig.files


def test_retention_without_room_for_a_new_segment_removes_the_others() -> None:
    rig, log = filled(retention_ms=DAY)
    rig.clock.advance(30 * DAY)
    memory(rig).inject(Fault("open", 1, errno.ENOSPC, path_part="8.log"))
    assert delete_old_segments(log, log.log_end_offset) == 3
    assert bases(log) == [6]
    assert delete_old_segments(log, log.log_end_offset) == 1
    assert (bases(log), log.is_offline) == ([8], False)


def test_retention_without_any_room_leaves_the_only_segment_and_the_log_online() -> None:
    rig, log = filled(1, retention_ms=DAY)
    rig.clock.advance(30 * DAY)
    memory(rig).inject(Fault("open", 1, errno.ENOSPC, path_part="2.log"))
    assert delete_old_segments(log, log.log_end_offset) == 0
    assert (bases(log), log.is_offline) == ([0], False)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("file", ["1.log", "1.index", "1.timeindex"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_roll_that_failed_costs_nothing_that_was_appended_after_it(file: str, error: int, stopped: bool) -> None:
    rig = Rig(config=LogConfig(segment_bytes=1000))
    log = rig.log()
    append(log)
    memory(rig).inject(Fault("open", 1, error, path_part=file))
    with pytest.raises(KafkaStorage):
        append(log, batch(b"v" * 900))
    for _ in range(3):
        append(log)
    append(log, batch(b"v" * 900))
    assert bases(log) == [0, 4]
    again = rig.restart() if stopped else rig.kill()
    assert (bases(again), again.log_end_offset, len(contents(again))) == ([0, 4], 5, 5)


def removed_twice() -> tuple[Rig, UnifiedLog]:
    """A log whose first removal of segments found no room in its middle, before the second one."""
    rig, log = filled(5)
    memory(rig).inject(Fault("rename", 1, errno.ENOSPC, path_part="2.log"))
    for start in (4, 8):
        log.increment_log_start_offset(start)
        delete_old_segments(log, log.log_end_offset)
        rig.workers.run_all()
    return rig, log


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_removal_waits_for_an_earlier_one_that_finds_no_room_so_that_a_crash_finds_no_gap(checkpointed: bool) -> None:
    rig, _ = removed_twice()
    assert [name for name in names(rig, ".log") if not name.endswith(".deleted")] == [
        f"{base:020d}.log" for base in (2, 4, 6, 8)
    ]
    if checkpointed:
        rig.manager.checkpoint_log_start_offsets()
    again = rig.kill()
    assert (again.log_start_offset, again.log_end_offset) == (8 if checkpointed else 2, 10)


def test_removals_go_on_once_there_is_room() -> None:
    rig, log = removed_twice()
    rig.clock.advance(DESCRIPTORS_RETRY_MS)
    rig.workers.run_all()
    assert not log.removal.unsynced
    rig.clock.advance(1000)
    rig.workers.run_all()
    assert names(rig, ".log") == [f"{8:020d}.log"]


def test_a_gap_below_the_start_of_a_log_costs_nothing_above_it() -> None:
    rig, log = filled(5)
    log.increment_log_start_offset(8)
    rig.manager.checkpoint_log_start_offsets()
    rig.fs.unlink(log.segments.floor(4).file.path)
    again = rig.kill()
    assert (again.log_start_offset, again.log_end_offset) == (8, 10)


def never_synced(segments: int = 4) -> tuple[Rig, UnifiedLog]:
    """A log of that many segments of one batch each, none of which is on the device."""
    rig = Rig(MemoryFileSystem(), LogConfig(retention_ms=-1))
    log = rig.log()
    for number in range(segments):
        if number:
            log.roll()
        append(log)
    return rig, log


@pytest.mark.parametrize("clean", [False, True])
def test_segments_below_the_start_that_a_power_failure_damaged_cost_nothing_above_it(clean: bool) -> None:
    rig, log = never_synced()
    log.increment_log_start_offset(3)
    delete_old_segments(log, log.log_end_offset)
    rig.manager.checkpoint_log_start_offsets()
    rig.workers.drop_all()  # the process ends before their names have changed
    if clean:
        rig.manager.close()
    else:
        log.flusher.flush_now()
    memory(rig).crash(Unsynced.LOST)
    again = rig.reopen()
    assert (again.log_start_offset, again.log_end_offset) == (3, 4)
    assert names(rig, ".log") == [f"{3:020d}.log"]


def test_segments_that_a_start_removes_do_not_come_back_when_the_power_fails() -> None:
    rig, log = never_synced(3)
    log.increment_log_start_offset(3)
    rig.manager.checkpoint_log_start_offsets()
    delete_old_segments(log, log.log_end_offset)  # but for the active one
    rig.workers.run_all()
    log.roll()
    append(log)
    rig.manager.close()
    assert rig.reopen().log_start_offset == 3
    rig.manager.checkpoint_log_start_offsets()  # no longer names the log, which starts with its first segment
    memory(rig).crash(Unsynced.LOST)
    assert rig.reopen().log_start_offset == 3


def test_what_was_flushed_outlives_a_removal_that_found_no_room() -> None:
    rig, log = never_synced()
    log.increment_log_start_offset(3)
    delete_old_segments(log, log.log_end_offset)
    memory(rig).inject(Fault("rename", 1, errno.ENOSPC, path_part="1.log"))
    log.flush()
    rig.workers.run_all()
    assert log.flushed.offset == 4
    memory(rig).crash(Unsynced.LOST)
    assert rig.reopen().log_end_offset == 4


def test_leader_epochs_without_room_keep_no_log_from_retention() -> None:
    rig, log = filled(retention_bytes=0)
    memory(rig).inject(Fault("open", 1, errno.ENOSPC, path_part="leader-epoch"))
    assert delete_old_segments(log, log.log_end_offset) == 4
    rig.workers.run_all()
    assert not log.is_offline
    log = rig.restart()
    assert log.leader_epochs.entries == ((0, 8),)


def test_snapshots_of_earlier_stops_go_at_the_start() -> None:
    rig = Rig(config=LogConfig())
    log = rig.log()
    for number in range(6):
        put(log, (b"a", b"1"), producer_id=7, sequence=number)
        if number == 2:
            log.roll()
        log = rig.restart()
    assert [name for name in sorted(rig.fs.listdir(log.folder)) if name.endswith(".snapshot")] == [
        f"{offset:020d}.snapshot" for offset in (3, 6)
    ]
    assert log.producers.producers[7].last_sequence == 5


def test_retention_goes_on_where_the_cleaned_offset_finds_no_room() -> None:
    rig = Rig(config=replace(COMPACT, delete=True, retention_ms=DAY, message_timestamp_after_max_ms=2**62))
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    memory(rig).inject(Fault("open", 1, errno.ENOSPC, path_part="cleaner-offset-checkpoint"))
    rig.clock.advance(30 * DAY)
    assert clean(rig)
    assert log.log_start_offset == log.log_end_offset


def test_gaps_of_compaction_are_no_lost_writes_after_a_clean_stop_whatever_checkpoints_are_there() -> None:
    rig = Rig(config=COMPACT)
    log = rig.log()
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"b", b"1"))
    put(log, (b"c", b"1"))
    log.roll()
    put(log, (b"c", b"2"))
    put(log, (b"b", b"2"))
    roll(log)
    log.config = LogConfig(
        compact=True, delete=False, segment_bytes=100, min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=1
    )
    assert clean(rig)
    assert [(segment.base_offset, segment.size > 0) for segment in log.segments] == [
        (0, True),
        (1, False),
        (3, True),
        (5, True),
    ]
    before = records(log)
    rig.manager.close()
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        rig.fs.unlink(f"/data/{name}")
    rig.fs.unlink(log.segments.first.offset_index.path)
    assert records(rig.reopen()) == before


def test_segments_after_a_gap_go_after_a_crash() -> None:
    rig = Rig()
    log = rig.log()
    for _ in range(3):
        append(log)
        log.roll()
    rig.fs.unlink(log.segments.floor(1).file.path)
    log = rig.kill()
    assert (bases(log), log.log_end_offset) == ([0], 1)
