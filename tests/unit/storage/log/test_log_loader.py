"""Opening a log after anything: the cases of Kafka's LogLoaderTest, and where each is pinned."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from storage.append_types import LogConfig
from storage.files import read_file, write_file_atomically
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.cleaner.cleaning import end_txn, put
from tests.unit.storage.log.loading import SMALL, filled
from tests.unit.storage.support import Rig, append, batch, contents, read

CASES: dict[str, tuple[str, str]] = {
    "testLogRecoveryIsCalledUponBrokerCrash": (
        "folders.test_log_loading",
        "test_a_torn_last_batch_is_cut_off",
    ),
    "testProducerSnapshotsRecoveryAfterUncleanShutdownCurrentMessageFormat": (
        "producers.test_producers_after_loading",
        "test_snapshots_are_taken_anew_for_what_is_recovered",
    ),
    "testSkipLoadingIfEmptyProducerStateBeforeTruncation": (
        "log.test_log_truncation",
        "test_truncation_forgets_epochs_and_producers_too",
    ),
    "testRecoverAfterNonMonotonicCoordinatorEpochWrite": (
        "producers.test_producers_after_loading",
        "test_a_marker_of_an_old_coordinator_is_replayed",
    ),
    "testSkipTruncateAndReloadIfNewMessageFormatAndCleanShutdown": (
        "log.test_log_loader",
        "test_after_a_clean_stop_no_log_is_read",
    ),
    "testLoadProducersAfterDeleteRecordsMidSegment": (
        "producers.test_producers_after_loading",
        "test_producers_are_known_from_the_log_start_on",
    ),
    "testLoadProducersAfterDeleteRecordsOnSegment": (
        "producers.test_producers_after_loading",
        "test_producers_are_known_from_the_log_start_on",
    ),
    "testLoadingLogKeepsLargestStrayProducerStateSnapshot": (
        "producers.test_producers_after_loading",
        "test_a_stray_snapshot_is_of_use",
    ),
    "testLogRecoversToCorrectOffset": (
        "log.test_log_model",
        "TestLog",
    ),
    "testIndexRebuild": (
        "folders.test_log_loading",
        "test_a_damaged_index_is_rebuilt",
    ),
    "testCorruptIndexRebuild": (
        "folders.test_log_loading",
        "test_a_damaged_index_is_rebuilt",
    ),
    "testBogusIndexSegmentsAreRemoved": (
        "folders.test_log_loading",
        "test_leftovers_of_deletion_and_compaction_are_removed_or_finished",
    ),
    "testReopenThenTruncate": (
        "log.test_log_model",
        "TestLog",
    ),
    "testOpenDeletesObsoleteFiles": (
        "folders.test_log_loading",
        "test_leftovers_of_deletion_and_compaction_are_removed_or_finished",
    ),
    "testCorruptLog": (
        "log.test_log_loader",
        "test_a_log_damaged_anywhere_is_a_prefix_of_what_it_was",
    ),
    "testOverCompactedLogRecovery": (
        "log.test_log_loader",
        "test_large_gaps_between_batches_are_no_damage",
    ),
    "testOverCompactedLogRecoveryMultiRecord": (
        "log.test_log_loader",
        "test_large_gaps_between_batches_are_no_damage",
    ),
    "testCleanShutdownFile": (
        "log.test_log_loader",
        "test_a_stale_clean_shutdown_file_counts_once",
    ),
    "testLogRecoversForLeaderEpoch": (
        "log.test_log_loader",
        "test_leader_epochs_are_found_in_the_log",
    ),
    "testFullTransactionIndexRecovery": (
        "log.test_log_loader",
        "test_transaction_indexes_are_made_anew",
    ),
    "testRecoverOnlyLastSegment": (
        "log.test_log_loader",
        "test_only_what_lies_past_the_recovery_point_is_scanned",
    ),
    "testRecoverLastSegmentWithNoSnapshots": (
        "producers.test_producers_after_loading",
        "test_without_snapshots_producers_are_found_in_the_log",
    ),
    "testLogEndLessThanStartAfterReopen": (
        "folders.test_log_checkpoints",
        "test_a_log_start_checkpointed_survives_and_one_past_the_end_starts_anew",
    ),
    "testCorruptedLogRecoveryDoesNotDeleteProducerStateSnapshotsPostRecovery": (
        "producers.test_producers_after_loading",
        "test_snapshots_past_a_cut_go_and_those_before_it_stay",
    ),
    "testRecoverWithEmptyActiveSegment": (
        "log.test_log_loader",
        "test_an_empty_active_segment_without_indexes_is_fine",
    ),
}
"""Kafka's name to module and name here.

Left out: old message formats (the V1 cases, testRebuildTimeIndexForOldMessages, both of
testSkipTruncateAndReloadIfOldMessageFormat, testLeaderEpochCacheClearedAfterStaticMessageFormatDowngrade): so did
Kafka 4; segments whose offsets do not fit their index and their splitting, which only Kafka before 1.1 wrote
(testRecoveryOfSegmentWithOffsetOverflow, testRecoveryAfterCrashDuringSplitPhase1 to 5); remote storage.
"""

BASE = "/data/t-0/00000000000000000000"


def test_every_case_has_its_test() -> None:
    for module, name in CASES.values():
        assert hasattr(import_module(f"tests.unit.storage.{module}"), name)


def opened(fs: MemoryFileSystem, start: Callable[[], object]) -> list[str]:
    """The files that are opened meanwhile."""
    paths: list[str] = []
    fs.hook = lambda operation, path: paths.append(path) if operation == "open" else None
    start()
    fs.hook = None
    return paths


def test_after_a_clean_stop_no_log_is_read(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    rig.manager.close()
    logs = [path for path in opened(fs, rig.open) if path.endswith(".log")]
    assert logs == ["/data/t-0/00000000000000000008.log"]  # for where it ends


def test_only_what_lies_past_the_recovery_point_is_scanned(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    log = filled(rig, 6)
    rig.manager.checkpoint_recovery_points()
    for number in range(6, 9):
        append(log, batch(b"x" * 20, producer_id=7, sequence=number), epoch=1)
    rig.manager.release()
    scanned = {path for path in opened(fs, rig.reopen) if path.endswith(".log")}
    assert scanned == {f"/data/t-0/{base:020d}.log" for base in (6, 8)}
    assert len(contents(rig.log())) == 9


def test_a_stale_clean_shutdown_file_counts_once(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    log = rig.restart()
    assert not fs.exists("/data/.kafka_cleanshutdown")
    append(log, batch(b"torn", producer_id=7, sequence=9))
    file = fs.open("/data/t-0/00000000000000000008.log")
    file.truncate(file.size() - 3)
    log = rig.kill()
    assert log.log_end_offset == 9


@pytest.mark.parametrize("seed", range(20))
def test_a_log_damaged_anywhere_is_a_prefix_of_what_it_was(fs: MemoryFileSystem, seed: int) -> None:
    rig = Rig(fs, SMALL)
    log = filled(rig)
    expected = contents(log)
    segments = [segment.file.path for segment in log.segments]
    rig.manager.release()
    path = segments[seed % len(segments)]
    file = fs.open(path)
    at = seed * 37 % file.size()
    if 12 <= at % len(expected[0]) < 16:  # the leader epoch is outside of the CRC, in Kafka's format
        at += 4
    file.pwrite(bytes([file.pread(1, at)[0] ^ 0xFF]), at)
    found = contents(rig.reopen())
    assert found == expected[: len(found)]
    assert len(found) >= segments.index(path) * 2
    restarted = contents(rig.restart())
    assert restarted == found


def test_a_segment_that_is_missing_ends_the_log_before_it(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    expected = contents(filled(rig))
    rig.manager.release()
    fs.unlink("/data/t-0/00000000000000000004.log")
    assert contents(rig.reopen()) == expected[:4]


def test_large_gaps_between_batches_are_no_damage(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, LogConfig(index_interval_bytes=1))
    log = rig.log()
    for offset in (0, 10, 2**31 - 10):
        log.log_end_offset = offset
        append(log)
    expected = contents(log)
    assert [read(log, offset)[:8] for offset in (1, 11)] == [one[:8] for one in expected[1:]]
    found = rig.kill()
    assert contents(found) == expected
    assert found.log_end_offset == 2**31 - 9


def test_an_empty_active_segment_without_indexes_is_fine(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log)
    log.roll()
    rig.manager.close()
    for suffix in (".index", ".timeindex"):
        fs.unlink(f"/data/t-0/00000000000000000001{suffix}")
    log = rig.reopen()
    assert append(log).first_offset == 1
    assert len(contents(rig.restart())) == 2


# -- what else is beside the log


def test_leader_epochs_are_found_in_the_log(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    entries = filled(rig).leader_epochs.entries
    rig.manager.release()
    fs.unlink("/data/t-0/leader-epoch-checkpoint")
    assert rig.reopen().leader_epochs.entries == entries


@pytest.mark.parametrize("start", [1, 3, 4, 6, 8, 9])
def test_leader_epochs_of_records_that_are_back_after_a_crash_are_back_too(fs: MemoryFileSystem, start: int) -> None:
    rig = Rig(fs, SMALL)
    log = filled(rig)
    entries = log.leader_epochs.entries
    assert len(entries) == 3
    log.increment_log_start_offset(start)  # no checkpoint follows
    rig.workers.run_all()
    assert log.leader_epochs.entries != entries
    log = rig.kill()
    assert log.log_start_offset == 0
    assert log.leader_epochs.entries == entries
    assert rig.kill().leader_epochs.entries == entries


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
def test_damaged_leader_epochs_are_found_in_the_log_whatever_the_stop(fs: MemoryFileSystem, clean: bool) -> None:
    rig = Rig(fs, SMALL)
    log = filled(rig)
    entries, expected = log.leader_epochs.entries, contents(log)
    rig.manager.checkpoint_recovery_points()
    (rig.manager.close if clean else rig.manager.release)()
    write_file_atomically(fs, "/data/t-0/leader-epoch-checkpoint", b"0\n7\n1 2\n")
    log = rig.reopen()
    assert log.leader_epochs.entries == entries
    assert contents(log) == expected


def test_transaction_indexes_are_made_anew(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    log = rig.log()
    for producer_id in (1, 2, 3):
        put(log, (b"a", b"x" * 30), producer_id=producer_id, transactional=True)
    for producer_id in (2, 1, 3):
        end_txn(log, producer_id, commit=producer_id == 3)
    rig.workers.run_all()
    expected = [(txn.producer_id, txn.first_offset) for segment in log.segments for txn in segment.txn_index.entries]
    assert expected == [(2, 1), (1, 0)]
    for name in fs.listdir("/data/t-0"):
        if name.endswith(".txnindex"):
            fs.unlink(f"/data/t-0/{name}")
    log = rig.kill()
    assert [
        (txn.producer_id, txn.first_offset) for segment in log.segments for txn in segment.txn_index.entries
    ] == expected


def test_an_index_longer_than_its_log_is_made_anew(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    rig.manager.close()
    data = read_file(fs, f"{BASE}.index")
    write_file_atomically(fs, f"{BASE}.index", data + bytes.fromhex("0000000900001000"))
    log = rig.reopen()
    assert log.segments.first.offset_index.entries()[-1][1] < log.segments.first.size
    assert len(contents(log)) == 9


@pytest.mark.parametrize("start", ["restart", "kill"])
def test_an_index_entry_is_due_an_interval_after_any_start(start: str) -> None:
    size = len(batch())
    rig = Rig(config=LogConfig(index_interval_bytes=2 * size))
    log = rig.log()
    for _ in range(5):
        append(log)
    rig.workers.run_all()
    log = getattr(rig, start)()
    for _ in range(5):
        append(log)
    assert log.segments.active.offset_index.entries() == [(3, 3 * size), (8, 8 * size)]
