"""What becomes of the folders of deleted topics and of topics that nobody knows, through crashes and starts."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.delete_topics.v6.request import DeleteTopicState

from storage.files import read_file, write_file_atomically
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.broker.asking import SECOND, append, log_dirs
from tests.unit.broker.rig import Client, Rig
from tests.unit.storage.support import copied_before_each_change

CONFIG = {"log.dirs": "/one,/two"}


def folders(fs: MemoryFileSystem) -> list[str]:
    """The folders of topics' partitions that are not about to be removed."""
    found = [f"{root}/{name}" for root in ("/one", "/two") for name in fs.listdir(root) if not name.startswith("__")]
    return sorted(path for path in found if fs.is_dir(path) and not path.endswith("-delete"))


def copy_folder(fs: MemoryFileSystem, old: str, new: str) -> None:
    fs.mkdir(new)
    for name in fs.listdir(old):
        write_file_atomically(fs, f"{new}/{name}", read_file(fs, f"{old}/{name}"))


async def filled() -> Rig:
    """Three partitions of `t` with a record each, and one of `kept`."""
    rig = Rig(config=CONFIG)
    await rig.start()
    await rig.create("t", 3)
    await rig.create("kept")
    client = rig.connect()
    assert {await append(client, "t", index) for index in range(3)} == {"none"}
    assert await append(client, "kept", 0) == "none"
    await settle()
    return rig


def ask_to_delete(client: Client, topic: str) -> None:
    fields: dict[str, Any] = {"topics": (DeleteTopicState(name=topic, topic_id=None),), "timeout": SECOND}
    client.send("delete_topics", 6, **fields)


@pytest.mark.long
@pytest.mark.parametrize("unsynced", [None, *Unsynced])
async def test_a_deletion_cut_short_at_any_point_leaves_no_folder(unsynced: Unsynced | None) -> None:
    """The topic is either there with its records, or all of it is gone, and its name is free."""
    outcomes = []
    rig = await filled()
    copies = copied_before_each_change(rig.fs)
    ask_to_delete(rig.connect(), "t")
    await settle()
    await rig.stop()
    for fs in copies:
        fs.unlock_all()
        if unsynced is not None:
            fs.crash(unsynced)
        async with Rig(fs=fs, clock=rig.clock, seed=2, config=CONFIG) as after:
            await settle()
            there = after.node.cluster.cache.topic("t") is not None
            hosted = {partition.log.folder for partition in after.node.replicas}
            assert set(folders(fs)) == hosted
            assert len(hosted) == (4 if there else 1)
            if not there:
                await after.create("t", 3)
            assert await append(after.connect(), "t", 1) == "none"
            outcomes.append(there)
    assert set(outcomes) == {True, False}


async def test_a_deletion_that_failed_is_finished_at_the_next_start() -> None:
    rig = await filled()

    def refuse(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("t-1"):
            raise OSError(28, "no space left")

    rig.fs.hook = refuse
    await rig.delete("t")
    rig.fs.hook = None
    assert len(folders(rig.fs)) == 2
    await rig.stop()
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=CONFIG) as after:
        await settle()
        assert [partition.key for partition in after.node.replicas] == [("kept", 0)]
        assert len(folders(rig.fs)) == 1


async def test_a_folder_put_back_after_its_topic_was_deleted_is_kept() -> None:
    rig = await filled()
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    backup = rig.fs.copy()
    await rig.delete("t")
    await rig.stop()
    copied = partition.log.folder
    folder = next(path for path in folders(backup) if path.endswith("t-0"))
    rig.fs.mkdir(folder)
    for name in backup.listdir(folder):
        write_file_atomically(rig.fs, f"{folder}/{name}", read_file(backup, f"{folder}/{name}"))
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=CONFIG) as after:
        (stray,) = [path for path in folders(rig.fs) if path.startswith(f"{folder}.") and path.endswith("-stray")]
        name = "/00000000000000000000.log"
        assert read_file(rig.fs, stray + name) == read_file(backup, folder + name)
        assert copied == folder
        assert [partition.key for partition in after.node.replicas] == [("kept", 0)]


async def test_a_folder_that_was_gone_for_some_runs_is_removed_if_its_topic_was_deleted_meanwhile() -> None:
    rig = await filled()
    await rig.stop()

    def gone(_: str, path: str) -> None:
        if path.startswith("/two"):
            raise OSError(5, "gone", path)

    rig.fs.hook = gone
    for seed, topic in ((2, "t"), (3, "kept")):
        async with Rig(fs=rig.fs, clock=rig.clock, seed=seed, config=CONFIG) as crippled:
            await crippled.delete(topic)
    rig.fs.hook = None
    assert [path for path in folders(rig.fs) if path.startswith("/two")] == ["/two/kept-0", "/two/t-1"]
    async with Rig(fs=rig.fs, clock=rig.clock, seed=4, config=CONFIG) as after:
        assert folders(rig.fs) == []
        assert len(after.node.replicas) == 0


async def test_strays_are_not_listed_and_hinder_no_topic_of_their_name() -> None:
    rig = await filled()
    await rig.stop()
    kept = next(path for path in folders(rig.fs) if path.endswith("kept-0"))
    for path in ("/one/ghost-0", "/two/t-7"):  # of another topic, and of no partition
        copy_folder(rig.fs, kept, path)
    before = folders(rig.fs)
    for seed in (2, 3):
        async with Rig(fs=rig.fs, clock=rig.clock, seed=seed, config=CONFIG) as after:
            strays = [path for path in folders(rig.fs) if path.endswith("-stray")]
            assert [path.partition(".")[0] for path in strays] == ["/one/ghost-0", "/two/t-7"]
            assert len(folders(rig.fs)) == len(before)
            told = await log_dirs(after.connect())
            listed = set.union(*(one[2] for one in told.values()))
            assert listed == {("t", 0), ("t", 1), ("t", 2), ("kept", 0)}
    async with Rig(fs=rig.fs, clock=rig.clock, seed=4, config=CONFIG) as after:
        await after.create("ghost")
        assert await append(after.connect(), "ghost", 0) == "none"
        ghost = after.node.replicas.get("ghost", 0)
        assert ghost is not None
        assert ghost.log_end_offset == 1
