"""Making a log shorter, or empty."""

from __future__ import annotations

from storage.append_types import LogConfig
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.support import Rig, append, batch
from tests.unit.storage.truncating import truncate_fully_and_start_at, truncate_to


def test_truncation_forgets_epochs_and_producers_too(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log, batch(producer_id=7), epoch=1)
    append(log, batch(producer_id=7, sequence=1), epoch=2)
    log.roll()
    append(log, batch(producer_id=8), epoch=3)
    assert truncate_to(log, 1)
    assert log.log_end_offset == 1
    assert len(log.segments) == 1
    assert log.leader_epochs.latest == 1
    assert log.producers.producers[7].last_sequence == 0
    assert 8 not in log.producers.producers
    assert append(log, batch(producer_id=7, sequence=1), epoch=2).first_offset == 1
    assert log.leader_epochs.latest == 2
    assert not truncate_to(log, 2)


def test_truncating_everything_starts_at_the_given_offset(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log)
    truncate_fully_and_start_at(log, 100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert append(log).first_offset == 100
    assert rig.restart().log_end_offset == 101


def test_a_reader_keeps_its_descriptor_through_a_truncation(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    append(log)
    size = log.size
    segment = log.segments.active
    file = segment.file.acquire()
    truncate_fully_and_start_at(log, 0)
    assert len(file.pread(size, 0)) == size
    open_files = fs.open_files
    segment.file.release()
    assert fs.open_files == open_files - 1


def test_a_tiered_log_that_is_cut_below_its_segments_begins_at_its_start(fs: MemoryFileSystem) -> None:
    """Else nobody would know any more that what comes before is in remote storage."""
    rig = Rig(fs, LogConfig(remote_storage=True))
    log = rig.log()
    truncate_fully_and_start_at(log, 100)
    append(log)
    log.log_start_offset = 7
    truncate_to(log, 50)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
