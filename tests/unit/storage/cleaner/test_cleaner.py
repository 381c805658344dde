"""What compaction keeps, drops and rewrites (Kafka's LogCleanerTest names the cases)."""

from __future__ import annotations

import errno

import pytest

from protocol.records.batch import check_crc
from protocol.records.build import iter_records
from protocol.records.compression import Compression
from storage.append_types import LogConfig
from storage.cleaner.log_cleaner import CleanerConfig
from storage.cleaner.offset_map import BYTES_PER_KEY
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.cleaner.cleaning import (
    COMPACT,
    RETENTION_MS,
    Kept,
    batches,
    clean,
    end_txn,
    kept,
    keyed,
    put,
    records,
    roll,
)
from tests.unit.storage.support import NOW, Rig, append


@pytest.fixture
def rig() -> Rig:
    return Rig(config=COMPACT)


def test_the_last_value_of_each_key_stays_at_its_offset(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"), (b"a", b"3"))
    roll(log)
    assert clean(rig)
    assert kept(log) == [Kept(1, b"b", b"1"), Kept(3, b"c", b"1"), Kept(4, b"a", b"3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert all(check_crc(data, 0, header) for header, data in batches(log))
    assert log.cleaned_to == 5
    assert not clean(rig)


def test_later_passes_only_read_keys_from_where_the_last_one_ended(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    roll(log)
    clean(rig)
    put(log, (b"a", b"2"), (b"a", b"3"))
    roll(log)
    assert clean(rig)
    assert kept(log) == [Kept(1, b"b", b"1"), Kept(2, b"last", b"record"), Kept(4, b"a", b"3")]


def test_the_active_segment_is_left_alone(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert not clean(rig)
    assert len(records(log)) == 2


def test_records_without_a_key_go(rig: Rig) -> None:
    log = rig.log()
    log.config = LogConfig()  # it became a compacted topic later
    put(log, (None, b"1"), (b"a", b"1"))
    log.config = COMPACT
    roll(log)
    clean(rig)
    assert kept(log) == [Kept(1, b"a", b"1")]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_is_rewritten_in_its_own_compression(rig: Rig, compression: Compression) -> None:
    log = rig.log()
    put(log, (b"a", b"x" * 300), (b"b", b"y" * 300), compression=compression)
    put(log, (b"a", b"z"))
    roll(log)
    clean(rig)
    header, data = batches(log)[0]
    assert header.compression == compression
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 1, 1)
    assert header.max_timestamp == NOW + 1
    assert check_crc(data, 0, header)
    assert kept(log)[0] == Kept(1, b"b", b"y" * 300)


# -- tombstones


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_cleaned(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"), timestamp=NOW - 10**6)
    roll(log)
    clean(rig)
    header, _ = batches(log)[0]
    assert kept(log) == [Kept(1, b"a", None), Kept(2, b"b", b"1")]
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + RETENTION_MS
    rig.clock.advance(RETENTION_MS - 10)
    roll(log)
    clean(rig)
    assert Kept(1, b"a", None) in kept(log)
    rig.clock.advance(20)
    roll(log)
    clean(rig)
    assert Kept(1, b"a", None) not in kept(log)
    assert Kept(2, b"b", b"1") in kept(log)


def test_timestamps_survive_a_delete_horizon(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", None), (b"b", b"1"), timestamp=NOW - 5000)
    roll(log)
    clean(rig)
    header, data = batches(log)[0]
    assert [record.timestamp for record in iter_records(data, header)] == [NOW - 5000, NOW - 4999]
    assert header.max_timestamp == NOW - 4999


# -- producers and transactions


def test_a_producers_last_batch_stays_though_empty(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"), producer_id=4, sequence=0)
    put(log, (b"a", b"2"), producer_id=4, sequence=1)
    put(log, (b"a", b"3"))
    roll(log)
    clean(rig)
    found = [(header.producer_id, header.base_sequence, header.record_count) for header, _ in batches(log)[:-1]]
    assert found == [(4, 1, 0), (-1, -1, 1)]
    log = rig.kill()
    assert log.producers.producers[4].last_sequence == 1
    assert append(log, keyed((b"b", b"1"), producer_id=4, sequence=1)).duplicate


def test_the_last_batch_of_a_pass_stays_though_empty(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    log.config = LogConfig()
    put(log, (None, b"no key"))
    log.config = COMPACT
    roll(log)
    clean(rig)
    assert [(header.base_offset, header.record_count) for header, _ in batches(log)] == [(0, 1), (1, 0), (2, 1)]


def test_aborted_records_go_at_once_and_their_marker_after_delete_retention_ms(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"aborted"), producer_id=4, transactional=True)
    end_txn(log, 4, commit=False)
    put(log, (b"b", b"aborted"), producer_id=5, transactional=True)
    end_txn(log, 5, commit=False)
    rig.clock.advance(log.producers.expiration_ms)
    log.producers.remove_expired(rig.clock.wall_ms())
    roll(log)
    clean(rig)
    assert kept(log) == [Kept(0, b"a", b"1")]
    markers = [header for header, _ in batches(log) if header.is_control]
    assert [header.base_offset for header in markers] == [2, 4]
    assert not any(header.has_delete_horizon for header in markers)  # their data was seen in this pass
    roll(log)
    clean(rig)
    markers = [header for header, _ in batches(log) if header.is_control]
    assert all(header.has_delete_horizon for header in markers)
    rig.clock.advance(RETENTION_MS)
    roll(log)
    clean(rig)
    assert not any(header.is_control for header, _ in batches(log))


def test_committed_records_are_like_any_others(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=4, transactional=True)
    end_txn(log, 4, commit=True)
    put(log, (b"a", b"2"))
    roll(log)
    clean(rig)
    assert kept(log) == [Kept(1, b"b", b"1"), Kept(3, b"a", b"2")]
    assert [header.base_offset for header, _ in batches(log) if header.is_control] == [2]


def test_the_last_stable_offset_bounds_what_is_cleaned(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"), producer_id=4, transactional=True)
    put(log, (b"a", b"3"))
    roll(log)
    clean(rig)
    assert [record.value for record in kept(log)] == [b"1", b"2", b"3"]
    end_txn(log, 4, commit=True)
    clean(rig)
    assert [record.value for record in records(log) if record.key == b"a"] == [b"3"]


def test_the_transaction_index_lists_the_aborted_transactions_that_are_left(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"x"), producer_id=4, transactional=True)
    end_txn(log, 4, commit=False)
    put(log, (b"b", b"y"), producer_id=5, transactional=True)
    put(log, (b"b", b"z"), producer_id=5, sequence=1, transactional=True)
    end_txn(log, 5, commit=False)
    roll(log)
    clean(rig)
    plan = log.plan_read(0, 1 << 20, log.end, True)
    assert [
        (one.producer_id, one.first_offset, one.last_offset)
        for one in plan.aborted_transactions(10**6, log.log_end_offset)
    ] == [
        (4, 0, 1),
        (5, 2, 4),
    ]


# -- segments


def test_small_segments_become_one(rig: Rig) -> None:
    log = rig.log()
    for number in range(10):
        put(log, (b"key %d" % number, b"v" * 50))
        log.roll()
    roll(log)
    clean(rig)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert len(kept(log)) == 10
    rig.clock.advance(1)
    rig.workers.run_all()
    names = {name.partition(".")[0] for name in rig.fs.listdir(log.folder) if name[0] == "0"}
    assert names == {"00000000000000000000", "00000000000000000010"}


def test_segments_are_not_merged_past_segment_bytes(rig: Rig) -> None:
    log = rig.log()
    for number in range(10):
        put(log, (b"key %d" % number, b"v" * 50))
        log.roll()
    size = log.segments.first.size
    roll(log)
    log.config = LogConfig(compact=True, min_cleanable_dirty_ratio=0.0, segment_bytes=3 * size)
    clean(rig)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9, 10]


def test_the_new_segment_is_as_old_as_the_youngest_that_went_into_it() -> None:
    fs = MemoryFileSystem()
    rig = Rig(fs, COMPACT)
    fs.now_ms = rig.clock.wall_ms
    log = rig.log()
    put(log, (b"a", b"1"))
    rig.clock.advance(500)
    put(log, (b"b", b"1"))
    log.roll()
    rig.clock.advance(500)
    roll(log)
    clean(rig)
    assert fs.modified_ms(log.segments.first.file.path) == NOW + 500


def test_readers_of_replaced_segments_read_on(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    plan = log.plan_read(0, 1 << 20, log.end, True)
    clean(rig)
    data = plan.try_read()
    assert data is not None
    assert b"1" in bytes(data)


def test_indexes_of_a_cleaned_log_find_every_record(rig: Rig) -> None:
    log = rig.log()
    for number in range(50):
        put(log, (b"key %d" % (number % 7), b"v"), (b"own %d" % number, b"v"), timestamp=NOW + number * 10)
    roll(log)
    clean(rig)
    segment = log.segments.first
    assert len(segment.offset_index.entries()) > 40
    for one in kept(log):
        assert log.locate(one.offset).offset == one.offset
    assert log.segments.first.max_timestamp == NOW + 491


# -- the map of keys


def test_a_small_map_takes_several_passes(rig: Rig) -> None:
    log = rig.log()
    for number in range(30):
        put(log, (b"key %d" % (number % 15), b"%d" % number))
    roll(log)
    config = CleanerConfig(dedupe_buffer_size=BYTES_PER_KEY * 10, load_factor=1.0)
    passes = 0
    while clean(rig, config):
        passes += 1
    assert passes == 3
    assert [record.value for record in kept(log)] == [b"%d" % number for number in range(15, 30)]


def test_a_batch_with_more_keys_than_the_map_holds_does_not_spin(rig: Rig) -> None:
    log = rig.log()
    put(log, *((b"key %d" % number, b"v") for number in range(20)))
    roll(log)
    config = CleanerConfig(dedupe_buffer_size=BYTES_PER_KEY * 10, load_factor=1.0)
    assert clean(rig, config)
    assert len(kept(log)) == 20
    assert log.cleaned_to is None


def test_keys_longer_than_a_digest_are_told_apart(rig: Rig) -> None:
    log = rig.log()
    for number in range(4):
        put(log, (b"k" * 100 + b"%d" % (number % 2), b"%d" % number))
    roll(log)
    clean(rig)
    assert [record.value for record in kept(log)] == [b"2", b"3"]


# -- limits and failures


def test_reading_and_writing_keep_to_the_rate(rig: Rig) -> None:
    log = rig.log()
    for number in range(200):
        put(log, (b"key %d" % number, b"v" * 100))
    roll(log)
    size = log.segments.first.size
    before = rig.clock.monotonic_ms()
    clean(rig, CleanerConfig(max_bytes_per_second=size))
    took = rig.clock.monotonic_ms() - before
    assert took == pytest.approx(3000, rel=0.4)  # read for keys, read for copying, written


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync", "open"])
def test_a_failure_before_the_swap_leaves_the_log_as_it_was(rig: Rig, operation: str) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    before = records(log)
    rig.files.inject(Fault(operation, 1, errno.ENOSPC, path_part=".cleaned"))
    clean(rig)
    assert records(log) == before
    assert not log.is_offline
    assert not any(name.endswith(".cleaned") for name in rig.files.listdir(log.folder)) or operation == "open"
    assert clean(rig)
    assert [record.value for record in kept(log)] == [b"2"]


def test_a_failed_swap_takes_the_log_offline_and_the_next_start_finishes_it(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    rig.workers.run_all()
    rig.files.inject(Fault("rename", 1, path_part=".swap"))
    clean(rig)
    assert log.is_offline
    rig.files.crash(Unsynced.LOST)
    assert [record.value for record in kept(rig.reopen())] == [b"2"]


def test_a_log_that_cannot_be_read_is_left_alone(rig: Rig) -> None:
    log = rig.log()
    append(log, keyed((b"a", b"1")))
    roll(log)
    data = log.segments.first.file.open()
    data.pwrite(b"\x7f", 61)  # the first record claims to be longer than its batch
    assert clean(rig)
    assert log.cleaned_to is None
    assert not log.is_offline
