"""Folders of partitions that no topic has: those with records are kept under another name, as in Kafka."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from protocol.topic_partition import TopicPartition
from storage.files import read_file, write_file_atomically
from storage.folders import partition_metadata
from storage.folders.log_names import stray_name
from storage.folders.strays import FolderState
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.folders.two_folders import TwoFolders
from tests.unit.storage.support import TOPIC_ID, MachineStopped, append, contents, stop_after

GHOST_ID = UUID(int=0x99)
DELETED_ID = UUID(int=0xDE)


class Rig(TwoFolders):
    """`t` is a topic, with `TOPIC_ID`; the topic with `DELETED_ID` was deleted."""

    def folder_state(self, partition: TopicPartition, topic_id: UUID | None, _closed_in: int) -> FolderState:
        if partition.topic == "t" and topic_id in (TOPIC_ID, None):
            return FolderState.HOSTED
        return FolderState.DELETED if topic_id == DELETED_ID else FolderState.STRAY

    def put(self, path: str, topic_id: UUID | None, *, empty: bool = False) -> dict[str, bytes]:
        """A copy of t-0's folder with another topic id, damaged at the end; what is in it."""
        self.fs.mkdir(path)
        for name in self.fs.listdir("/one/t-0"):
            if empty and name.endswith(".snapshot"):
                continue
            damaged = read_file(self.fs, f"/one/t-0/{name}") + b"\0" * 7
            write_file_atomically(self.fs, f"{path}/{name}", b"" if empty else damaged)
        self.fs.unlink(f"{path}/partition.metadata")
        if topic_id is not None:
            partition_metadata.write(self.fs, path, topic_id)
        self.fs.fsync_dir(path)
        self.fs.fsync_dir(path.rpartition("/")[0])
        return self.files_in(path)

    def files_in(self, path: str) -> dict[str, bytes]:
        return {name: read_file(self.fs, f"{path}/{name}") for name in self.fs.listdir(path)}

    def folders(self, root: str) -> list[str]:
        return sorted(name for name in self.fs.listdir(root) if self.fs.is_dir(f"{root}/{name}"))

    def stray(self, root: str, partition: str) -> str:
        (name,) = [name for name in self.folders(root) if name.startswith(f"{partition}.") and name.endswith("-stray")]
        return f"{root}/{name}"


@pytest.fixture
def rig() -> Rig:
    rig = Rig(MemoryFileSystem())
    append(rig.log())
    rig.stop()
    return rig


@pytest.mark.parametrize("topic_id", [GHOST_ID, None], ids=["unknown id", "no id"])
@pytest.mark.parametrize("root", ["/one", "/two"])
def test_a_folder_whose_topic_nobody_knows_is_kept_untouched(rig: Rig, root: str, topic_id: UUID | None) -> None:
    """Neither recovered nor cut, as nobody serves it."""
    before = rig.put(f"{root}/ghost-0", topic_id)
    write_file_atomically(rig.fs, f"{root}/recovery-point-offset-checkpoint", b"0\n1\nghost 0 1\n")
    for _ in range(3):
        rig.start()
        assert list(rig.manager.logs) == [TopicPartition("t", 0)]
        assert rig.files_in(rig.stray(root, "ghost-0")) == before
        rig.stop()
    assert "ghost" not in read_file(rig.fs, f"{root}/recovery-point-offset-checkpoint").decode()
    rig.start()
    assert append(rig.log("ghost")).first_offset == 0


def test_a_folder_of_a_topic_of_the_same_name_gives_way_to_the_topics(rig: Rig) -> None:
    before = rig.put("/two/t-0", GHOST_ID)
    rig.start()
    assert rig.log().folder == "/one/t-0"
    assert len(contents(rig.log())) == 1
    assert rig.files_in(rig.stray("/two", "t-0")) == before


def test_of_two_folders_the_one_that_tells_its_topic_is_the_topics(rig: Rig) -> None:
    before = rig.put("/two/t-0", None)
    rig.start()
    assert rig.log().folder == "/one/t-0"
    assert rig.files_in(rig.stray("/two", "t-0")) == before


def test_a_folder_that_a_creation_left_half_made_is_removed(rig: Rig) -> None:
    rig.put("/one/ghost-0", GHOST_ID, empty=True)
    write_file_atomically(rig.fs, "/one/ghost-0/leader-epoch-checkpoint.tmp", b"0")
    rig.fs.mkdir("/two/ghost-1")
    rig.start()
    assert (rig.folders("/one"), rig.folders("/two")) == (["t-0"], [])


@pytest.mark.parametrize("name", ["00000000000000000000.log.swap", "00000000000000000007.log", "tax.pdf", "below/"])
def test_a_folder_with_anything_else_in_it_is_kept(rig: Rig, name: str) -> None:
    """A folder of somebody's own, say `backup-2026`, has the form of a partition's name."""
    rig.put("/one/ghost-0", GHOST_ID, empty=True)
    if name.endswith("/"):
        rig.fs.mkdir(f"/one/ghost-0/{name[:-1]}")
    else:
        write_file_atomically(rig.fs, f"/one/ghost-0/{name}", b"")
    rig.start()
    assert rig.stray("/one", "ghost-0")


def test_a_folder_of_a_deleted_topic_is_removed(rig: Rig) -> None:
    rig.put("/one/gone-0", DELETED_ID)
    rig.put("/two/t-0", DELETED_ID)
    rig.start()
    assert (rig.folders("/one"), rig.folders("/two")) == (["t-0"], [])


@pytest.mark.parametrize("unsynced", [None, *Unsynced])
@pytest.mark.parametrize("topic_id", [GHOST_ID, DELETED_ID], ids=["stray", "deleted"])
def test_a_crash_at_any_point_of_it_changes_nothing_in_the_end(
    rig: Rig, topic_id: UUID, unsynced: Unsynced | None
) -> None:
    before = rig.put("/two/ghost-0", topic_id)
    found = rig.files
    survived = 0
    while True:
        rig.fs = fs = found.copy()
        fs.hook = stop_after(survived)
        try:
            rig.start()
        except MachineStopped:
            fs.hook = None
            fs.unlock_all()
            if unsynced is not None:
                fs.crash(unsynced)
            rig.start()
        else:
            break
        assert len(contents(rig.log())) == 1
        if topic_id == GHOST_ID:
            assert rig.files_in(rig.stray("/two", "ghost-0")) == before
        else:
            assert rig.folders("/two") == []
        survived += 1
    assert survived > 20


def test_a_folder_in_which_nothing_can_be_renamed_is_done_without(rig: Rig) -> None:
    before = rig.put("/two/ghost-0", GHOST_ID)
    rig.refuse("rename", "/two/ghost-0", errno.EIO)
    rig.start()
    assert rig.manager.failed_folders == {"/two"}
    assert rig.files_in("/two/ghost-0") == before


def test_a_new_partition_does_not_overwrite_what_was_put_in_its_place_meanwhile(rig: Rig) -> None:
    rig.start()
    for root in ("/one", "/two"):
        before = rig.put(f"{root}/ghost-0", GHOST_ID)
    made = rig.log("ghost")
    assert made.log_end_offset == 0
    root = made.folder.rpartition("/")[0]
    assert rig.files_in(rig.stray(root, "ghost-0")) == before


def test_the_name_of_a_stray_is_at_most_255_characters() -> None:
    assert stray_name(TopicPartition("t", 3), UUID(int=1)) == "t-3.00000000000000000000000000000001-stray"
    assert len(stray_name(TopicPartition("x" * 249, 123), TOPIC_ID)) == 255
