"""Retention: which segments go, when their files go, and that a deleted start never comes back."""

from __future__ import annotations

import pytest

from protocol.errors import OffsetOutOfRange
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault, Unsynced
from tests.unit.storage.log.retaining import DAY, FOLDER, bases, filled, names
from tests.unit.storage.support import (
    NOW,
    MachineStopped,
    Rig,
    append,
    batch,
    contents,
    headers_in,
    now,
    read,
    stop_after,
)


def delete(log: UnifiedLog, high_watermark: int | None = None) -> int:
    return delete_old_segments(log, log.log_end_offset if high_watermark is None else high_watermark)


def test_retention_ms_removes_segments_whose_largest_timestamp_is_too_old() -> None:
    rig, log = filled(retention_ms=DAY)
    rig.clock.advance(DAY)
    assert delete(log) == 0
    rig.clock.advance(1)
    assert delete(log) == 1
    rig.clock.advance(3600_000)
    assert delete(log) == 1
    assert bases(log) == [4, 6]
    assert log.log_start_offset == 4


def test_the_active_segment_goes_when_all_of_it_has_expired_and_an_empty_one_stays() -> None:
    rig, log = filled(retention_ms=DAY)
    rig.clock.advance(30 * DAY)
    assert delete(log) == 4
    assert bases(log) == [8]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (8, 8, 0)
    assert delete(log) == 0
    assert append(log, batch(timestamp=NOW)).first_offset == 8


def test_the_active_segment_stays_while_one_of_its_records_is_young() -> None:
    rig, log = filled(3, retention_ms=DAY, segment_ms=2**62)
    rig.clock.advance(DAY)
    append(log, batch(timestamp=NOW + 30 * DAY))
    rig.clock.advance(30 * DAY)
    assert delete(log) == 2
    assert bases(log) == [4]


def test_a_record_from_the_future_keeps_its_segment() -> None:
    rig = Rig(config=LogConfig(retention_ms=DAY, message_timestamp_after_max_ms=2**62))
    log = rig.log()
    append(log, batch(timestamp=NOW + 900 * DAY))
    log.roll()
    append(log, batch())
    rig.clock.advance(30 * DAY)
    assert delete(log) == 0


def test_retention_bytes_keeps_the_least_number_of_segments_that_is_not_below_the_limit() -> None:
    _, log = filled(4)
    each = log.segments.first.size
    for limit, kept in ((5 * each, 4), (4 * each, 4), (3 * each + 1, 4), (3 * each, 3), (2 * each - 1, 2), (each, 1)):
        log.config = LogConfig(retention_ms=-1, retention_bytes=limit)
        delete(log)
        assert len(log.segments) == kept


def test_a_limit_of_zero_bytes_takes_everything() -> None:
    _, log = filled(4, retention_bytes=0)
    assert delete(log) == 4
    assert bases(log) == [8]


def test_segments_below_the_log_start_go_whatever_the_policy() -> None:
    _, log = filled(4)
    log.config = LogConfig(retention_bytes=0, delete=False, compact=True)
    log.increment_log_start_offset(5)
    assert delete(log) == 2
    assert bases(log) == [4, 6]
    assert log.log_start_offset == 5


def test_a_log_that_starts_where_a_segment_does_keeps_none_before_it() -> None:
    _, log = filled(4)
    log.increment_log_start_offset(4)
    assert delete(log) == 2
    assert bases(log) == [4, 6]


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    _, log = filled(4, retention_bytes=0)
    assert delete(log, high_watermark=3) == 1
    assert bases(log) == [2, 4, 6]


def test_file_delete_delay_ms_between_new_names_and_removal() -> None:
    rig, log = filled(3, retention_bytes=0)
    before = names(rig)
    delete(log)
    assert names(rig) == sorted(
        [*before, *(f"{6:020d}{suffix}" for suffix in (".log", ".index", ".timeindex", ".snapshot"))]
    )
    rig.workers.run_all()
    gone = [name for name in before if name[:20].isdigit()]
    assert names(rig, ".deleted") == sorted(f"{name}.deleted" for name in gone)
    rig.clock.advance(999)
    rig.workers.run_all()
    assert names(rig, ".deleted")
    rig.clock.advance(1)
    rig.workers.run_all()
    assert not names(rig, ".deleted")
    assert names(rig) == [*(f"{6:020d}{suffix}" for suffix in (".index", ".log", ".snapshot", ".timeindex")),
                          "leader-epoch-checkpoint", "partition.metadata"]  # fmt: skip
    assert rig.files.open_files <= 2


def test_files_whose_delay_ends_after_a_stop_are_left_to_the_next_start() -> None:
    rig, log = filled(3, retention_bytes=0)
    delete(log)
    rig.workers.run_all()
    rig.manager.close()
    rig.clock.advance(1000)
    assert not rig.workers.waiting
    assert names(rig, ".deleted")
    assert rig.files.open_files == 0
    rig.reopen()
    assert not names(rig, ".deleted")


def test_snapshots_go_with_their_segments() -> None:
    rig, log = filled(4, retention_ms=DAY)
    rig.clock.advance(DAY + 3600_001)
    delete(log)
    assert log.producers.snapshots.offsets == (4, 6)


def test_reads_below_the_new_start_are_out_of_range() -> None:
    rig, log = filled(3, retention_bytes=300)
    delete(log)
    with pytest.raises(OffsetOutOfRange):
        read(log, 1)
    assert headers_in(read(log, log.log_start_offset))[0].base_offset == log.log_start_offset
    rig.workers.run_all()


def test_a_read_planned_before_finds_the_files_until_they_go() -> None:
    rig, log = filled(3, retention_bytes=0, file_delete_delay_ms=0)
    rig.files.page_cache_cold = True
    plan, late = (log.plan_read(0, 1 << 20, log.end, True) for _ in range(2))
    delete(log)
    assert plan.try_read() is None
    assert headers_in(now(plan.read()))[0].base_offset == 0
    rig.workers.run_all()
    rig.clock.advance(0)
    rig.workers.run_all()
    assert late.try_read() is None
    with pytest.raises(OffsetOutOfRange):
        now(late.read())
    assert not log.is_offline


@pytest.mark.parametrize("unsynced", Unsynced)
def test_what_was_deleted_on_request_stays_deleted_after_a_power_failure(unsynced: Unsynced) -> None:
    for seed in range(10):
        for run in range(3):
            rig, log = filled(4)
            log.flush()
            rig.workers.run_all()
            log.increment_log_start_offset(4)
            rig.manager.checkpoint_log_start_offsets()
            delete(log)
            if run >= 1:
                rig.manager.checkpoint_log_start_offsets()
            if run == 2:
                rig.workers.run_all()
                rig.manager.checkpoint_log_start_offsets()
            rig.workers.drop_all()
            rig.files.crash(unsynced, seed)
            log = rig.reopen()
            assert (log.log_start_offset, log.log_end_offset) == (4, 8)
            assert len(contents(log)) == 4


def test_an_open_transaction_below_the_start_counts_from_the_start() -> None:
    _, log = filled(1)
    data = build_batch(
        [Record(0, NOW, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    append(log, memoryview(data))
    assert log.first_unstable_offset == 2
    append(log, batch())
    log.increment_log_start_offset(4)
    assert log.first_unstable_offset == 4


def test_a_partition_made_anew_keeps_its_files() -> None:
    rig, log = filled(3, retention_bytes=0)
    delete(log)
    rig.manager.delete_log_soon("t", 0)
    fresh = rig.log()
    append(fresh)
    rig.workers.run_all()
    rig.clock.advance(100_000)
    rig.workers.run_all()
    assert not names(rig, ".deleted")
    assert len(contents(fresh)) == 1
    assert not fresh.is_offline


@pytest.mark.parametrize("operation", ["rename", "fsync_dir", "unlink"])
def test_a_disk_error_takes_the_log_offline(operation: str) -> None:
    rig, log = filled(3, retention_bytes=0)
    delete(log)
    rig.files.inject(Fault(operation, 1, path_part=FOLDER))
    rig.workers.run_all()
    rig.clock.advance(1000)
    rig.workers.run_all()
    assert log.is_offline
    assert delete_old_segments(log, 8) == 0


def delete_until(rig: Rig, log: UnifiedLog, stop_at: int) -> bool:
    """Delete old segments and what follows from it; whether the machine stopped before, at its operation `stop_at`."""
    rig.files.hook = stop_after(stop_at)
    try:
        delete(log)
        rig.workers.run_all()
        rig.clock.advance(0)
        rig.workers.run_all()
        rig.manager.checkpoint_log_start_offsets()
    except MachineStopped:
        return True
    finally:
        rig.files.hook = None
    return False


def test_a_crash_at_any_operation_leaves_a_log_that_ends_where_it_ended() -> None:
    stopped, stop_at = True, 0
    while stopped:
        rig, log = filled(4)
        log.flush()
        rig.workers.run_all()
        log.config = LogConfig(retention_ms=-1, retention_bytes=300, file_delete_delay_ms=0)
        stopped = delete_until(rig, log, stop_at)
        for unsynced in Unsynced:
            rig.workers.drop_all()
            rig.files.crash(unsynced, stop_at)
            log = rig.reopen()
            assert log.log_end_offset == 8
            assert len(contents(log)) == 8 - log.log_start_offset
            assert not names(rig, ".deleted")
        stop_at += 1
    assert stop_at > 20
