"""A process that may open no more files refuses what needs one, and goes on once it may."""

from __future__ import annotations

import errno

import pytest

from protocol.errors import KafkaStorage
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin, LogConfig
from storage.log import time_lookup
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.storage.folders.moving import marker
from tests.unit.storage.support import NOW, Rig, append, contents, now


@pytest.fixture
def rig() -> Rig:
    return Rig()


def idle(rig: Rig) -> UnifiedLog:
    """A log with a record that nobody has used since the start."""
    append(rig.log())
    return rig.restart()


def refuse(rig: Rig) -> MemoryFileSystem:
    def hook(operation: str, path: str) -> None:
        if operation in ("open", "fsync_dir"):
            raise OSError(errno.EMFILE, "too many open files", path)

    rig.files.hook = hook
    return rig.files


def test_an_append_to_an_idle_log_may_be_tried_again(rig: Rig) -> None:
    log = idle(rig)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        append(log)
    fs.hook = None
    assert append(log).first_offset == 1
    assert len(contents(log)) == 2


def test_an_append_that_needs_a_new_segment_may_be_tried_again(rig: Rig) -> None:
    log = rig.log()
    append(log)
    log.config = rig.config.__class__(segment_bytes=80)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        append(log)
    fs.hook = None
    assert append(log).first_offset == 1
    assert len(contents(log)) == 2


def test_a_read_of_an_idle_log_may_be_tried_again(rig: Rig) -> None:
    log = idle(rig)
    fs = refuse(rig)
    with pytest.raises(KafkaStorage):
        contents(log)
    fs.hook = None
    assert len(contents(log)) == 1


def transactional(producer_id: int, records: int = 1) -> memoryview:
    made = [Record(i, NOW, None, b"v") for i in range(records)]
    return memoryview(build_batch(made, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))


def abort(log: UnifiedLog, producer_id: int) -> None:
    log.append_as_leader(marker(producer_id), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=NOW)
    log.producers.on_high_watermark(log.log_end_offset)


def test_lookups_in_an_idle_log_may_be_tried_again(rig: Rig) -> None:
    append(rig.log(), transactional(5, records=2))
    rig.log().increment_log_start_offset(1)
    log = rig.restart()
    fs = refuse(rig)
    for lookup in (
        lambda: log.locate(0),
        lambda: log.first_unstable_offset,
        lambda: now(time_lookup.first_at_or_after(log, NOW)),
        lambda: now(time_lookup.largest(log)),
    ):
        with pytest.raises(KafkaStorage):
            lookup()
        assert not log.is_offline
    fs.hook = None
    assert (log.locate(0).position, log.first_unstable_offset) == (0, 0)


def test_a_flush_that_cannot_open_is_made_up_for(rig: Rig) -> None:
    log = rig.log()
    append(log)
    log.roll()
    append(log)
    fs = refuse(rig)
    rig.workers.run_all()
    assert (log.is_offline, log.flushed.offset) == (False, 0)
    fs.hook = None
    rig.clock.advance(DESCRIPTORS_RETRY_MS)
    rig.workers.run_all()
    assert log.flushed.offset == 2
    fs.crash()
    assert len(contents(rig.reopen())) == 2


def test_a_flush_of_an_idle_log_changes_nothing_before_it_has_its_files(rig: Rig) -> None:
    log = idle(rig)
    append(log)
    log.release_files()
    fs = refuse(rig)
    log.flush()
    assert not log.is_offline
    fs.hook = None
    rig.clock.advance(DESCRIPTORS_RETRY_MS)
    rig.workers.run_all()
    assert log.flushed.offset == 2


def test_an_abort_is_known_whether_or_not_its_index_could_be_opened(rig: Rig) -> None:
    log = rig.log()
    append(log, transactional(5))
    fs = refuse(rig)
    abort(log, 5)
    fs.hook = None
    for one in (log, rig.restart()):
        plan = one.plan_read(0, 1 << 20, one.end, True)
        aborted = plan.aborted_transactions(len(plan.try_read() or now(plan.read())), one.log_end_offset)
        assert [found.producer_id for found in aborted] == [5]


def test_segments_are_removed_once_their_folder_can_be_synced(rig: Rig) -> None:
    log = rig.log()
    append(log)
    log.roll()
    append(log)
    rig.workers.run_all()
    log.config = LogConfig(retention_bytes=0, file_delete_delay_ms=0)
    fs = refuse(rig)
    assert delete_old_segments(log, log.log_end_offset) == 1
    rig.workers.run_all()
    assert not log.is_offline
    fs.hook = None
    rig.clock.advance(DESCRIPTORS_RETRY_MS)
    rig.workers.run_all()
    rig.clock.advance(1)
    rig.workers.run_all()
    assert [name for name in fs.listdir(log.folder) if name.endswith(".deleted")] == []
    assert not log.removal.unsynced


def test_requests_meanwhile_wait_for_the_one_retry(rig: Rig) -> None:
    log = idle(rig)
    append(log)
    log.release_files()
    fs = refuse(rig)
    for _ in range(10):
        log.flush()
    before = fs.operations["open"]
    for _ in range(3):
        log.flush()
        rig.clock.advance(DESCRIPTORS_RETRY_MS)
        rig.workers.run_all()
    assert fs.operations["open"] == before + 3


def test_the_folder_of_a_deleted_log_goes_in_the_end(rig: Rig) -> None:
    append(rig.log())
    fs = rig.files
    rig.manager.delete_log_soon("t", 0)
    fs.inject(Fault("listdir", 1, errno.EMFILE, path_part="-delete"))
    for _ in range(2):
        rig.clock.advance(rig.config.file_delete_delay_ms + DESCRIPTORS_RETRY_MS)
        rig.workers.run_all()
    assert [name for name in fs.listdir("/data") if name.endswith("-delete")] == []


@pytest.mark.parametrize("path", [".log", ".index", ".timeindex"])
def test_a_removal_that_finds_no_room_for_a_longer_name_goes_on_where_it_was(rig: Rig, path: str) -> None:
    log = rig.log()
    append(log)
    log.roll()
    append(log)
    rig.workers.run_all()
    log.config = LogConfig(retention_bytes=0, file_delete_delay_ms=0)
    fs = rig.files
    fs.inject(Fault("rename", 1, errno.ENOSPC, path_part=path))
    delete_old_segments(log, log.log_end_offset)
    for _ in range(3):
        rig.workers.run_all()
        rig.clock.advance(DESCRIPTORS_RETRY_MS)
    rig.workers.run_all()
    assert not log.is_offline
    assert [name for name in fs.listdir(log.folder) if name.startswith("0" * 20 + ".")] == []
