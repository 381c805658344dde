"""What a log knows of its producers once it is open again: from its snapshots, or from its batches."""

from __future__ import annotations

import pytest

from protocol.records.build import ControlRecordType, EndTransactionMarker, build_end_marker
from storage.append_types import AppendOrigin, LogConfig
from storage.files import write_file_atomically
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.log.loading import SMALL, filled
from tests.unit.storage.support import NOW, Rig, append, batch


def test_snapshots_are_taken_anew_for_what_is_recovered(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    for name in fs.listdir("/data/t-0"):
        if name.endswith(".snapshot"):
            fs.unlink(f"/data/t-0/{name}")
    log = rig.kill()
    assert log.producers.snapshots.offsets == (2, 4, 6, 8, 9)
    assert log.producers.producers[7].last_sequence == 8


def test_without_snapshots_producers_are_found_in_the_log(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    rig.manager.close()
    for name in fs.listdir("/data/t-0"):
        if name.endswith(".snapshot"):
            fs.unlink(f"/data/t-0/{name}")
    assert rig.reopen().producers.producers[7].last_sequence == 8


def test_no_snapshot_is_kept_of_a_log_that_never_had_a_record(fs: MemoryFileSystem) -> None:
    """As in Kafka: such a file would stay for as long as the log starts at 0."""
    rig = Rig(fs, SMALL)
    rig.log()
    log = rig.restart()
    assert log.producers.snapshots.offsets == ()
    assert not any(name.endswith(".snapshot") for name in fs.listdir("/data/t-0"))


def test_a_stray_snapshot_is_of_use(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    log = filled(rig, 3)
    log.producers.take_snapshot(log.log_end_offset)  # no segment starts there
    log = rig.restart()
    assert 3 in log.producers.snapshots.offsets
    assert log.producers.producers[7].last_sequence == 2


def test_snapshots_of_the_future_are_removed(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig, 3)
    write_file_atomically(fs, "/data/t-0/00000000000000000077.snapshot", b"\x00\x01 of something else")
    log = rig.restart()
    assert 77 not in log.producers.snapshots.offsets
    assert not fs.exists("/data/t-0/00000000000000000077.snapshot")


def test_snapshots_past_a_cut_go_and_those_before_it_stay(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, SMALL)
    filled(rig)
    rig.manager.release()
    file = fs.open("/data/t-0/00000000000000000004.log")
    file.pwrite(b"\xff", file.size() - 5)
    log = rig.reopen()
    assert log.log_end_offset == 5
    assert log.producers.snapshots.offsets == (2, 4, 5)
    assert append(log, batch(b"y", producer_id=7, sequence=5)).first_offset == 5


@pytest.mark.parametrize("start", [3, 4], ids=["middle of a segment", "start of a segment"])
def test_producers_are_known_from_the_log_start_on(fs: MemoryFileSystem, start: int) -> None:
    rig = Rig(fs, LogConfig(segment_bytes=250))
    log = rig.log()
    for number in range(6):
        append(log, batch(b"x" * 20, producer_id=100 + number))
    rig.workers.run_all()
    log.increment_log_start_offset(start)
    rig.manager.checkpoint_log_start_offsets()
    for name in fs.listdir("/data/t-0"):
        if name.endswith(".snapshot"):
            fs.unlink(f"/data/t-0/{name}")
    log = rig.kill()
    assert log.log_start_offset == start
    assert {100 + number for number in range(start, 6)} <= set(log.producers.producers)


def test_a_marker_of_an_old_coordinator_is_replayed(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    for epoch, origin in ((5, AppendOrigin.COORDINATOR), (4, AppendOrigin.REPLICATION)):
        marker = EndTransactionMarker(ControlRecordType.ABORT, epoch)
        data = memoryview(build_end_marker(marker, producer_id=7, producer_epoch=0, timestamp=NOW))
        log.append_as_leader(data, leader_epoch=0, origin=origin, now_ms=NOW)
    log = rig.kill()
    assert log.log_end_offset == 2
    assert log.producers.producers[7].coordinator_epoch == 4
