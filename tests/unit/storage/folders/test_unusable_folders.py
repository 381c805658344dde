"""A folder of `log.dirs` that cannot be used at the start: what it holds is offline, and the rest is served."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.files import write_file_atomically
from storage.folders import partition_metadata
from storage.folders.log_dirs import LogDirError
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.folders.two_folders import TwoFolders, folder_of
from tests.unit.storage.support import TOPIC_ID, append, batch, contents, create_log

OTHER_ID = UUID(int=0x5678)


@pytest.fixture
def rig() -> TwoFolders:
    return TwoFolders(MemoryFileSystem())


UNUSABLE = [
    ("lock", "/two/.lock", errno.EIO),
    ("lock", "/two/.lock", errno.EACCES),
    ("open", "/two/meta.properties", errno.EIO),
    ("listdir", "/two", errno.EIO),
    ("open", "/two/recovery-point", errno.EIO),
    ("unlink", "/two/.kafka_cleanshutdown", errno.EROFS),
    ("open", "/two/t-3/partition.metadata", errno.EIO),
]


@pytest.mark.parametrize(("operation", "path", "error"), UNUSABLE)
def test_the_others_are_served_and_nothing_is_made_anew(rig: TwoFolders, operation: str, path: str, error: int) -> None:
    rig.fill()
    rig.stop()
    rig.refuse(operation, path, error)
    rig.start()
    assert rig.manager.failed_folders == {"/two"}
    for index in (0, 2):
        append(rig.log("t", index))
        assert len(contents(rig.log("t", index))) == 2
    for index in (1, 3):
        log = rig.manager.get("t", index) or rig.absent(index)
        assert log.is_offline
        assert folder_of(log) == "/two"
        with pytest.raises(KafkaStorage):
            append(log)
    assert {folder_of(rig.log("new", index)) for index in range(3)} == {"/one"}
    rig.manager.checkpoint_recovery_points()
    rig.stop()
    rig.heal()
    rig.start()
    assert rig.manager.failed_folders == set()
    assert [len(contents(rig.log("t", index))) for index in range(4)] == [2, 1, 2, 1]
    assert rig.manager.absent_log("t", 9, TOPIC_ID, rig.config) is None


def test_a_folder_that_cannot_be_made_is_done_without() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/one")
    fs.open("/two", create=True).close()
    rig = TwoFolders(fs)
    assert rig.manager.failed_folders == {"/two"}
    assert folder_of(rig.log()) == folder_of(rig.log("u")) == "/one"


@pytest.mark.parametrize(("operation", "path", "error"), UNUSABLE)
def test_the_first_folder_is_needed(rig: TwoFolders, operation: str, path: str, error: int) -> None:
    rig.fill()
    rig.stop()
    rig.refuse(operation, path.replace("/two", "/one").replace("t-3", "t-2"), error)
    with pytest.raises((LogDirError, OSError)):
        rig.start()


def test_a_folder_in_use_stops_the_start(rig: TwoFolders) -> None:
    rig.stop()
    assert rig.fs.lock("/two/.lock") is not None
    with pytest.raises(LogDirError, match="/two"):
        rig.start()


def test_a_folder_that_was_never_touched_is_as_clean_as_it_was(rig: TwoFolders) -> None:
    rig.fill()
    rig.stop()
    rig.refuse("lock", "/two/.lock")
    rig.start()
    rig.stop()
    rig.heal()
    rig.start()
    assert [log_dir.clean for log_dir in rig.dirs.dirs] == [True, True]


def test_a_partition_deleted_and_made_again_meanwhile_is_the_new_one(rig: TwoFolders) -> None:
    rig.fill()
    rig.stop()
    rig.refuse("lock", "/two/.lock")
    rig.start()
    rig.absent(1)
    rig.refuse("rename", "/two")
    with pytest.raises(KafkaStorage):
        rig.manager.delete_log_soon("t", 1)
    made = create_log(rig.manager, "t", 1, OTHER_ID, rig.config)
    append(made)
    append(made)
    rig.stop()
    rig.heal()
    rig.topic_id = OTHER_ID
    rig.start()
    found = rig.log("t", 1)
    assert (found.folder, found.topic_id, len(contents(found))) == ("/one/t-1", OTHER_ID, 2)
    assert not rig.fs.exists("/two/t-1")


def test_two_folders_with_records_of_one_partition_stop_the_start(rig: TwoFolders) -> None:
    rig.fill()
    rig.stop()
    rig.fs.mkdir("/two/t-0")
    partition_metadata.write(rig.fs, "/two/t-0", TOPIC_ID)
    write_file_atomically(rig.fs, "/two/t-0/00000000000000000000.log", bytes(batch()))
    with pytest.raises(KafkaStorage, match=r"hold t-0: /one/t-0, /two/t-0"):
        rig.start()


@pytest.mark.parametrize("failed", ["/one", "/two"])
def test_a_folder_in_which_a_log_could_not_be_made_does_not_stand_in_for_the_log(rig: TwoFolders, failed: str) -> None:
    """It was made in the other folder then, and what was left in this one could not be removed."""
    made = {"/one": "/two", "/two": "/one"}[failed]
    rig.manager.placement.prefer(TopicPartition("t", 7), rig.manager.log_dir(made))
    log = rig.log("t", 7)
    append(log)
    rig.stop()
    rig.fs.mkdir(f"{failed}/t-7")
    partition_metadata.write(rig.fs, f"{failed}/t-7", TOPIC_ID)
    write_file_atomically(rig.fs, f"{failed}/t-7/00000000000000000000.log", b"")
    rig.start()
    assert (rig.log("t", 7).folder, len(contents(rig.log("t", 7)))) == (f"{made}/t-7", 1)
    assert not rig.fs.exists(f"{failed}/t-7")


def test_two_folders_that_deletions_left_behind_keep_no_start_from_going_on(rig: TwoFolders) -> None:
    """Each time the disk was so full that no folder could be given another name."""
    rig.fill()
    for _ in range(2):
        rig.refuse("rename", "/", errno.ENOSPC)
        with pytest.raises(KafkaStorage):
            rig.manager.delete_log_soon("t", 0)
        rig.heal()
        rig.manager.placement.prefer(TopicPartition("t", 0), rig.manager.log_dir("/two"))
        if rig.fs.exists("/two/t-0"):
            break
        rig.log("t", 0)
    rig.stop()
    rig.topic_id = None
    rig.start()
    assert rig.log("t", 0).folder == "/one/t-0"
    assert not rig.fs.exists("/two/t-0")
