"""The folders of `log.dirs` under the feet of the broker: gone, replaced, or without the files of a log."""

from __future__ import annotations

import errno

import pytest

from protocol.topic_partition import TopicPartition
from storage.files import is_device_failure
from storage.folders.folder_watch import IDLE_LOGS_AT_ONCE, PROBE, FolderWatch
from storage.folders.log_checkpoints import CheckpointError
from storage.folders.log_dirs import LOCK_FILE
from tests.doubles.files import Fault
from tests.unit.storage.support import Rig, append


def watch_of(rig: Rig) -> FolderWatch:
    return FolderWatch(rig.fs, rig.dirs.dirs[0])


def test_an_untouched_folder_passes() -> None:
    rig = Rig()
    append(rig.log())
    watch = watch_of(rig)
    for _ in range(3):
        watch.check_folder()
        assert watch.check_logs(rig.manager.logs) == []


@pytest.mark.parametrize("deed", ["gone", "renamed", "replaced", "unlocked"])
def test_a_folder_that_is_gone_or_another_is_a_device_failure(deed: str) -> None:
    rig = Rig()
    watch = watch_of(rig)
    if deed == "unlocked":
        rig.fs.unlink(f"{rig.root}/{LOCK_FILE}")
    else:
        rig.fs.rename(rig.root, "/elsewhere")
    if deed == "replaced":
        rig.fs.mkdir(rig.root)
        rig.fs.open(f"{rig.root}/{LOCK_FILE}", create=True).close()
    with pytest.raises(OSError, match=r"is gone|is not the folder") as failure:
        watch.check_folder()
    assert is_device_failure(failure.value)


def test_a_log_whose_file_is_gone_is_reported_by_the_second_check() -> None:
    rig = Rig()
    kept, lost = rig.log("kept"), rig.log("lost")
    append(kept)
    append(lost)
    watch = watch_of(rig)
    rig.fs.unlink(lost.segments.active.file.path)
    assert watch.check_logs(rig.manager.logs) == []
    ((log, error),) = watch.check_logs(rig.manager.logs)
    assert log is lost
    assert "00000000000000000000.log is gone" in str(error)


def test_a_log_whose_file_is_another_is_reported() -> None:
    rig = Rig()
    log = rig.log()
    append(log)
    path = log.segments.active.file.path
    rig.fs.unlink(path)
    rig.fs.open(path, create=True).close()
    watch = watch_of(rig)
    watch.check_logs(rig.manager.logs)
    ((_, error),) = watch.check_logs(rig.manager.logs)
    assert "is not the file that the broker opened" in str(error)


def test_a_log_that_is_deleted_between_two_checks_is_not_reported() -> None:
    rig = Rig()
    log = rig.log()
    append(log)
    watch = watch_of(rig)
    rig.fs.rename(log.folder, f"{log.folder}-delete")
    assert watch.check_logs(rig.manager.logs) == []
    rig.manager.logs.pop(TopicPartition("t", 0))
    assert watch.check_logs(rig.manager.logs) == []


def test_idle_logs_are_looked_at_in_turn() -> None:
    rig = Rig()
    logs = [rig.log("t", index) for index in range(IDLE_LOGS_AT_ONCE + 1)]
    watch = watch_of(rig)
    watch.check_logs(rig.manager.logs)  # the first check looks at all
    rig.fs.unlink(logs[-1].segments.active.file.path)
    reports = [watch.check_logs(rig.manager.logs) for _ in range(4)]
    assert [log for report in reports for log, _ in report][:1] == logs[-1:]


def test_room_is_probed_with_a_file_that_does_not_stay() -> None:
    rig = Rig()
    watch = watch_of(rig)
    assert watch.has_room()
    for operation in ("open", "pwrite", "fdatasync"):
        rig.files.inject(Fault(operation, 1, errno.ENOSPC, path_part=PROBE))
        assert not watch.has_room()
    assert watch.has_room()
    assert PROBE not in rig.fs.listdir(rig.root)


def test_no_checkpoint_is_written_into_a_folder_put_in_place_of_the_opened_one() -> None:
    rig = Rig()
    append(rig.log())
    rig.fs.rename(rig.root, "/elsewhere")
    rig.fs.mkdir(rig.root)
    with pytest.raises(CheckpointError, match="is gone"):
        rig.manager.checkpoint_recovery_points()
    assert rig.fs.listdir(rig.root) == []
