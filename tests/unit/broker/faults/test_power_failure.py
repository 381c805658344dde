"""What a simulated power failure leaves: exactly what the file system in memory says that a real one would."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.faults.power_failure import PowerFailureFiles
from storage.files import read_file, write_file_atomically, write_fully
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import batch, fetch, produce

ROOT = "/d"


def tree(fs: Any, path: str = ROOT) -> dict[str, bytes | None]:
    """All files with their content, and all folders (None)."""
    found: dict[str, bytes | None] = {}
    for name in sorted(fs.listdir(path)):
        below = f"{path}/{name}"
        if fs.is_dir(below):
            found[below] = None
            found |= tree(fs, below)
        else:
            found[below] = read_file(fs, below)
    return found


class Pair:
    """The file system under test, and the one below it, which knows what a power failure leaves."""

    def __init__(self) -> None:
        self.memory = MemoryFileSystem()
        self.memory.mkdir(ROOT)
        self.memory.fsync_dir("")
        self.files = PowerFailureFiles(self.memory)

    def write(self, path: str, data: bytes, *, sync: bool = False) -> None:
        file = self.files.open(path, create=True)
        write_fully(file, data, file.size())
        if sync:
            file.fdatasync()
        file.close()

    def fail(self) -> dict[str, bytes | None]:
        """What is left; the model must say the same."""
        model = self.memory.copy()
        model.crash(Unsynced.LOST)
        self.files.fail([ROOT])
        left = tree(self.memory)
        assert left == tree(model)
        return left


def test_bytes_after_the_last_sync_are_lost() -> None:
    pair = Pair()
    pair.write("/d/a", b"synced", sync=True)
    pair.files.fsync_dir(ROOT)
    pair.write("/d/a", b" and not")
    assert pair.fail() == {"/d/a": b"synced"}


def test_a_new_file_needs_its_name_synced_too() -> None:
    pair = Pair()
    pair.write("/d/named", b"v", sync=False)
    pair.files.fsync_dir(ROOT)
    pair.write("/d/a", b"v", sync=True)
    pair.files.mkdir("/d/sub/deeper")
    pair.write("/d/sub/deeper/b", b"v", sync=True)
    assert pair.fail() == {"/d/named": b""}


def test_a_rename_that_was_not_synced_is_undone_and_what_it_replaced_is_back() -> None:
    pair = Pair()
    write_file_atomically(pair.files, "/d/checkpoint", b"old")
    write_file_atomically(pair.files, "/d/checkpoint", b"new", sync_folder=False)
    write_file_atomically(pair.files, "/d/checkpoint", b"newer", sync_folder=False)
    assert pair.fail() == {"/d/checkpoint": b"old"}


def test_a_folder_that_was_renamed_is_synced_under_its_new_name() -> None:
    pair = Pair()
    pair.files.mkdir("/d/t-0")
    pair.files.fsync_dir(ROOT)
    pair.write("/d/t-0/log", b"v", sync=True)
    pair.files.rename("/d/t-0", "/d/t-0-delete")
    pair.files.fsync_dir(ROOT)
    pair.files.fsync_dir("/d/t-0-delete")
    pair.write("/d/t-0-delete/other", b"v")
    assert pair.fail() == {"/d/t-0-delete": None, "/d/t-0-delete/log": b"v"}


def test_a_truncation_lowers_what_is_synced() -> None:
    pair = Pair()
    pair.write("/d/a", b"0123456789", sync=True)
    pair.files.fsync_dir(ROOT)
    file = pair.files.open("/d/a")
    file.truncate(4)
    file.fdatasync()
    write_fully(file, b"xyz", 4)
    assert pair.fail() == {"/d/a": b"0123"}


@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_of_operations_leaves_what_the_model_leaves(seed: int) -> None:
    rng, pair = random.Random(seed), Pair()
    pair.files.mkdir("/d/s")
    for _ in range(40):
        path = rng.choice(("/d/a", "/d/b", "/d/s/a", "/d/s/b"))
        match rng.randrange(5):
            case 0 | 1:
                pair.write(path, rng.randbytes(3), sync=rng.random() < 0.5)
            case 2:
                other = path[:-1] + ("b" if path.endswith("a") else "a")
                if pair.files.exists(path):
                    pair.files.rename(path, other)
            case 3:
                pair.files.fsync_dir(rng.choice((ROOT, "/d/s")))
            case 4:
                write_file_atomically(pair.files, path, rng.randbytes(3), sync_folder=rng.random() < 0.5)
    pair.fail()


async def test_a_node_comes_up_again_with_what_was_flushed_and_nothing_else() -> None:
    memory = MemoryFileSystem()
    rig = Rig(fs=PowerFailureFiles(memory))  # type: ignore[arg-type]
    await rig.start()
    await rig.create("flushed", flush_messages="1")
    await rig.create("not")
    client = rig.connect()
    for topic in ("flushed", "not"):
        client.send("produce", 9, **produce(topic, {0: batch(b"v")}))
        await settle()
        assert client.replies()
    failing = rig.fs
    assert isinstance(failing, PowerFailureFiles)
    failing.fail(["/data"])
    memory.unlock_all()
    following = Rig(fs=memory)
    async with following:
        ends = [following.node.replicas.get(topic, 0).log_end_offset for topic in ("flushed", "not")]
        assert ends == [1, 0]
        read = await following.connect().ask("fetch", 12, **fetch([("flushed", 0, 0)]))
        assert read.responses[0].partitions[0].records


async def test_the_path_of_a_file_is_given_before_it_is_synced() -> None:
    pair = Pair()
    seen: list[str] = []
    pair.files.on_sync = seen.append
    pair.write("/d/a", b"v", sync=True)
    pair.write("/d/b", b"v")
    assert seen == ["/d/a"]


def test_what_is_assumed_to_be_synced_stays() -> None:
    pair = Pair()
    pair.files.mkdir("/d/kept")
    pair.write("/d/kept/a", b"v")
    pair.files.copy_file("/d/kept/a", "/d/kept/copy", 1)
    pair.files.assume_synced("/d/kept")
    pair.files.copy_file("/d/kept/a", "/d/lost", 1)
    pair.files.fail([ROOT])
    assert tree(pair.memory) == {"/d/kept": None, "/d/kept/a": b"v", "/d/kept/copy": b"v"}
