"""Appending, rolling, reading, flushing and failing of one log."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from protocol.errors import KafkaStorage, OffsetOutOfRange, RecordBatchTooLarge
from protocol.records.batch import read_header
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from storage.append_types import AppendOrigin, LogConfig
from storage.log.log_segments import LogOffsetMetadata
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.storage.support import NOW, Rig, append, batch, contents, headers_in, now, read
from tests.unit.storage.truncating import truncate_to


def test_an_append_gives_offsets_and_the_leader_epoch(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    first = append(log, batch(b"a", b"b"), epoch=3)
    second = append(log, batch(b"c"), epoch=4)
    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    headers = headers_in(read(log, 0))
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 3), (2, 4)]
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries] == [(3, 0), (4, 2)]
    assert log.end_offset_for_epoch(3) == (3, 2)
    assert log.end_offset_for_epoch(4) == (4, 3)


def test_a_duplicate_of_an_idempotent_producer_is_not_written_again(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    original = append(log, batch(b"x", b"y", producer_id=7))
    end, size = log.log_end_offset, log.size
    again = append(log, batch(b"x", b"y", producer_id=7))
    assert again.duplicate
    assert (again.first_offset, again.last_offset) == (original.first_offset, original.last_offset)
    assert (log.log_end_offset, log.size) == (end, size)


def test_segments_roll_by_size(fs: MemoryFileSystem) -> None:
    one = len(batch(b"value"))
    log = Rig(fs, LogConfig(segment_bytes=3 * one)).log()
    for _ in range(7):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * one, 3 * one, one]


def test_segments_roll_by_the_records_own_time(fs: MemoryFileSystem) -> None:
    log = Rig(fs, LogConfig(segment_ms=1000)).log()
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(fs: MemoryFileSystem) -> None:
    log = Rig(fs, LogConfig(segment_index_bytes=36, index_interval_bytes=1)).log()
    for shift in range(7):
        append(log, batch(timestamp=NOW + shift))
    # Three entries fit into the time index; the last slot is kept for the entry that closes the segment.
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [len(segment.time_index) for segment in log.segments] == [2, 2, 0]


def test_indexes_with_room_for_the_closing_entry_alone_are_full_from_the_start(fs: MemoryFileSystem) -> None:
    log = Rig(fs, LogConfig(segment_index_bytes=12, index_interval_bytes=1)).log()
    for shift in range(3):
        append(log, batch(timestamp=NOW + shift))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert [len(segment.time_index) for segment in log.segments] == [1, 1, 0]


def test_record_list_too_large_for_a_batch_larger_than_a_segment(fs: MemoryFileSystem) -> None:
    log = Rig(fs, LogConfig(segment_bytes=100)).log()
    with pytest.raises(RecordBatchTooLarge):
        append(log, batch(b"x" * 100))
    assert log.log_end_offset == 0


def test_index_interval_bytes_between_index_entries(fs: MemoryFileSystem) -> None:
    one = len(batch(b"value"))
    log = Rig(fs, LogConfig(index_interval_bytes=3 * one)).log()
    for shift in range(12):
        append(log, batch(timestamp=NOW + shift))
    segment = log.segments.active
    assert segment.offset_index.entries() == [(4, 4 * one), (8, 8 * one)]
    assert segment.time_index.entries() == [(NOW + 4, 4), (NOW + 8, 8)]


# -- reading


def test_a_read_is_a_raw_range_that_may_end_inside_a_batch(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    for _ in range(3):
        append(log)
    one = log.size // 3
    assert bytes(read(log, 1, one + 10)) == b"".join(contents(log))[one : 2 * one + 10]


def test_the_first_batch_comes_whole_only_if_asked(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    assert len(read(log, 0, 10, min_one=True)) == log.size
    plan = log.plan_read(0, 10, log.end, False)
    data = plan.try_read()
    assert data is not None
    assert len(data) == 10
    assert plan.first_entry_incomplete
    assert read(log, 0, 0, min_one=False) == b""


def test_a_read_begins_with_the_batch_that_holds_the_offset(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    append(log, batch(b"1", b"2", b"3"))
    plan = log.plan_read(2, 1 << 20, log.end, True)
    data = plan.try_read()
    assert data is not None
    assert read_header(data).base_offset == 1
    assert plan.start == LogOffsetMetadata(2, 0, len(contents(log)[0]))


def test_a_read_ends_at_its_bound(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    bound = log.end
    append(log)
    assert [header.base_offset for header in headers_in(log.plan_read(0, 1 << 20, bound, True).try_read() or b"")] == [
        0
    ]
    assert log.plan_read(1, 1 << 20, bound, True).try_read() == b""
    assert log.plan_read(2, 1 << 20, bound, True).try_read() == b""


def test_a_read_stays_within_a_segment_and_may_pass_the_bounds_segment(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    log.roll()
    append(log)
    assert [header.base_offset for header in headers_in(read(log, 0))] == [0]
    assert [header.base_offset for header in headers_in(read(log, 1))] == [1]


def test_offset_out_of_range_outside_the_log(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    append(log)
    log.increment_log_start_offset(1)
    for offset in (-1, 0, 3):
        with pytest.raises(OffsetOutOfRange):
            log.plan_read(offset, 100, log.end, True)
    assert read(log, 2) == b""


def test_a_cold_page_cache_sends_the_read_to_a_worker(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    append(log)
    fs.page_cache_cold = True
    plan = log.plan_read(0, 1 << 20, log.end, True)
    assert plan.try_read() is None
    assert len(now(plan.read())) == log.size


def test_locate_finds_segment_and_position(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log, batch(b"a", b"b"))
    append(log)
    log.roll()
    append(log)
    first, second = (len(batch) for batch in contents(log)[:2])
    assert log.locate(1) == LogOffsetMetadata(1, 0, 0)
    assert log.locate(2) == LogOffsetMetadata(2, 0, first)
    assert log.locate(3) == LogOffsetMetadata(3, 3, 0)
    assert log.locate(4) == log.end == LogOffsetMetadata(4, 3, second)


# -- transactions


def test_an_aborted_transaction_is_told_to_its_readers(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    data = build_batch(
        [Record(0, NOW, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    append(log, memoryview(data))
    assert log.first_unstable_offset == 0
    marker = build_end_marker(
        EndTransactionMarker(ControlRecordType.ABORT, 0), producer_id=5, producer_epoch=0, timestamp=NOW
    )
    log.append_as_leader(memoryview(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=NOW)
    log.producers.on_high_watermark(log.log_end_offset)
    assert log.first_unstable_offset is None
    plan = log.plan_read(0, 1 << 20, log.end, True)
    size = len(plan.try_read() or b"")
    aborted = plan.aborted_transactions(size, log.log_end_offset)
    assert [(txn.producer_id, txn.first_offset) for txn in aborted] == [(5, 0)]
    plan = log.plan_read(2, 1 << 20, log.end, True)
    assert plan.aborted_transactions(0, log.log_end_offset) == []


def test_an_open_transaction_holds_back_from_the_batch_with_the_logs_start(fs: MemoryFileSystem) -> None:
    one = len(build_batch([Record(0, NOW, None, b"v"), Record(1, NOW, None, b"v")]))
    log = Rig(fs, LogConfig(segment_bytes=2 * one)).log()
    for sequence in range(0, 10, 2):
        records = [Record(0, NOW, None, b"v"), Record(1, NOW, None, b"v")]
        data = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence, transactional=True)
        append(log, memoryview(data))
    assert len(log.segments) == 3
    found = {}
    for start in range(11):
        log.increment_log_start_offset(start)
        unstable = log.first_unstable_offset
        assert unstable is not None
        found[start] = unstable
        assert log.locate(unstable).offset == unstable
        assert log.plan_read(start, 1 << 20, log.locate(unstable), True).try_read() == b""
    assert found == {0: 0, 1: 0, 2: 2, 3: 2, 4: 4, 5: 4, 6: 6, 7: 6, 8: 8, 9: 8, 10: 10}


def test_the_batch_with_the_logs_start_is_looked_for_once(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    for _ in range(2):
        append(log, batch(b"a", b"b"))
    log.increment_log_start_offset(3)
    assert log.segments.batch_start(3) == 2
    reads = fs.operations.get("pread", 0)
    assert log.segments.batch_start(3) == 2
    assert fs.operations.get("pread", 0) == reads
    truncate_to(log, 2)
    append(log, batch(b"c"))
    append(log, batch(b"d"))
    assert log.segments.batch_start(3) == 3


# -- flushing


def test_a_flush_covers_what_was_appended_before_it(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    flushed: list[int] = []
    log.flusher.on_flush = lambda where: flushed.append(where.offset)
    append(log)
    log.flush()
    append(log)
    log.flush()
    append(log)
    assert flushed == []
    syncs = fs.operations.get("fdatasync", 0)
    rig.workers.run_all()
    assert flushed == [1, 3]
    assert fs.operations["fdatasync"] == syncs + 2
    assert log.flushed == log.end


def test_flush_messages_asks_for_a_flush(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, LogConfig(flush_messages=3))
    log = rig.log()
    append(log, batch(b"a", b"b"))
    rig.workers.run_all()
    assert log.flushed.offset == 0
    append(log)
    rig.workers.run_all()
    assert log.flushed.offset == 3


def test_flush_ms_flushes_what_is_old(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, LogConfig(flush_ms=500))
    log = rig.log()
    append(log)
    rig.manager.flush_dirty_logs()
    rig.workers.run_all()
    assert log.flushed.offset == 0
    rig.clock.advance(500)
    rig.manager.flush_dirty_logs()
    rig.workers.run_all()
    assert log.flushed.offset == 1


def test_a_failed_flush_takes_the_log_offline_and_is_not_retried(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    errors: list[str] = []
    log.on_offline = lambda _, error: errors.append(str(error))
    append(log)
    log.flush()
    fs.inject(Fault("fdatasync", 1))
    rig.workers.run_all()
    assert log.is_offline
    assert len(errors) == 1
    assert log.flushed.offset == 0
    syncs = fs.operations["fdatasync"]
    log.flush()
    rig.workers.run_all()
    assert fs.operations["fdatasync"] == syncs
    for call in (lambda: append(log), lambda: log.plan_read(0, 1, log.end, True), lambda: truncate_to(log, 0)):
        with pytest.raises(KafkaStorage):
            call()


# -- failing writes


@pytest.mark.parametrize("taken", [0, 5])
def test_a_failed_write_leaves_nothing_behind_and_takes_the_log_offline(fs: MemoryFileSystem, taken: int) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log)
    before = log.end
    fs.inject(Fault("pwrite", 1, errno.EIO, taken=taken, path_part=".log"))
    if taken:
        fs.inject(Fault("pwrite", 1, errno.EIO, path_part=".log"))
    with pytest.raises(KafkaStorage):
        append(log)
    assert log.is_offline
    assert log.end == before
    assert fs.size("/data/t-0/00000000000000000000.log") == before.position
    assert len(contents(rig.kill())) == 1


def test_a_short_write_is_completed(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    fs.inject(Fault("pwrite", 1, taken=20, path_part=".log"))
    append(log)
    append(log)
    assert len(contents(log)) == 2


def test_a_failed_write_leaves_producer_state_alone(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log, batch(producer_id=7))
    fs.inject(Fault("pwrite", 1, path_part=".log"))
    with pytest.raises(KafkaStorage):
        append(log, batch(producer_id=7, sequence=1))
    assert log.producers.producers[7].last_sequence == 0


# -- truncating


def test_a_changed_config_counts_from_the_next_append(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    log.config = replace(log.config, segment_bytes=log.size)
    append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
