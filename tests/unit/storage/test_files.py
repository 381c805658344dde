"""The file systems: the operating system's, and the one in memory with its faults and crashes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.files import FileSystem, OsFile, OsFileSystem, read_file, write_file_atomically, write_fully
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.support import MachineStopped, stop_after

Make = Callable[[], tuple[FileSystem, str]]


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    if request.param == "os":
        return OsFileSystem(), str(tmp_path)
    fs = MemoryFileSystem()
    fs.mkdir("/place")
    return fs, "/place"


def test_files_read_what_was_written(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    file = fs.open(f"{folder}/a", create=True)
    write_fully(file, b"0123456789", 0)
    write_fully(file, memoryview(b"xy"), 4)
    assert file.pread(5, 3) == b"3xy67"
    assert file.pread(50, 8) == b"89"
    assert bytes(file.pread_nowait(4, 2) or b"") in (b"23xy", b"")
    assert file.pread_nowait(50, 8) is None
    file.truncate(3)
    file.fdatasync()
    assert file.size() == fs.size(f"{folder}/a") == 3
    file.close()
    file.close()
    with pytest.raises(OSError, match=r"(?i)bad file|closed"):
        file.pread(1, 0)


def test_names_move_and_go(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    with pytest.raises(FileNotFoundError):
        fs.open(f"{folder}/a")
    fs.mkdir(f"{folder}/x/y")
    fs.mkdir(f"{folder}/x/y")
    write_file_atomically(fs, f"{folder}/x/y/a", b"1")
    fs.link(f"{folder}/x/y/a", f"{folder}/x/y/b")
    write_file_atomically(fs, f"{folder}/x/y/c", b"2")
    fs.rename(f"{folder}/x/y/c", f"{folder}/x/y/a")
    assert sorted(fs.listdir(f"{folder}/x/y")) == ["a", "b"]
    assert (read_file(fs, f"{folder}/x/y/a"), read_file(fs, f"{folder}/x/y/b")) == (b"2", b"1")
    with pytest.raises(OSError, match=r"(?i)not empty"):
        fs.rmdir(f"{folder}/x/y")
    fs.unlink(f"{folder}/x/y/a")
    fs.unlink(f"{folder}/x/y/b")
    fs.rmdir(f"{folder}/x/y")
    assert fs.is_dir(f"{folder}/x")
    assert not fs.exists(f"{folder}/x/y")
    total, usable = fs.space(folder)
    assert 0 < usable <= total


def test_a_lock_has_one_holder(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    release = fs.lock(f"{folder}/.lock")
    assert release is not None
    assert fs.lock(f"{folder}/.lock") is None
    release()
    again = fs.lock(f"{folder}/.lock")
    assert again is not None
    again()


def test_a_file_system_without_nowait_reads_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OsFile, "_nowait_works", True)

    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr("os.preadv", refuse)
    file = OsFileSystem().open(str(tmp_path / "a"), create=True)
    write_fully(file, b"1", 0)
    assert file.pread_nowait(1, 0) is None
    assert not OsFile._nowait_works
    assert file.pread(1, 0) == b"1"
    file.close()


# -- in memory


def written(fs: MemoryFileSystem) -> None:
    """`a` synced as 1000 zeros and its name with it, then ones in its place and 1000 more, and a new name."""
    fs.mkdir("/d")
    fs.fsync_dir("/")
    file = fs.open("/d/a", create=True)
    write_fully(file, bytes(1000), 0)
    file.fdatasync()
    fs.fsync_dir("/d")
    write_fully(file, b"\x01" * 2000, 0)
    fs.open("/d/b", create=True)


def test_a_crash_loses_what_was_not_synced() -> None:
    fs = MemoryFileSystem()
    written(fs)
    fs.crash(Unsynced.LOST)
    assert read_file(fs, "/d/a") == bytes(1000)
    assert fs.listdir("/d") == ["a"]


def test_a_crash_may_keep_everything() -> None:
    fs = MemoryFileSystem()
    written(fs)
    fs.crash(Unsynced.KEPT)
    assert read_file(fs, "/d/a") == b"\x01" * 2000
    assert fs.listdir("/d") == ["a", "b"]


def test_a_crash_may_tear() -> None:
    seen = set()
    for seed in range(20):
        fs = MemoryFileSystem()
        written(fs)
        fs.crash(Unsynced.TORN, seed)
        data = read_file(fs, "/d/a")
        assert 1000 <= len(data) <= 2000
        seen.add((0 in data, 1 in data, tuple(fs.listdir("/d"))))
    assert (True, True, ("a",)) in seen
    assert (True, True, ("a", "b")) in seen


def test_what_survived_a_crash_survives_the_next() -> None:
    fs = MemoryFileSystem()
    written(fs)
    fs.crash(Unsynced.KEPT)
    fs.crash(Unsynced.LOST)
    assert read_file(fs, "/d/a") == b"\x01" * 2000


def test_faults_strike_the_operation_ordered() -> None:
    fs = MemoryFileSystem()
    file = fs.open("/a", create=True)
    fs.inject(Fault("pwrite", 2, errno.ENOSPC))
    fs.inject(Fault("fdatasync", 1))
    write_fully(file, b"12", 0)
    with pytest.raises(OSError, match="injected") as caught:
        file.pwrite(b"34", 2)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="injected"):
        file.fdatasync()
    file.fdatasync()
    fs.inject(Fault("pwrite", 1, taken=1))
    assert file.pwrite(b"34", 2) == 1
    assert file.pread(9, 0) == b"123"
    assert fs.operations["pwrite"] == 3


def test_a_full_disk_that_takes_nothing_is_an_error() -> None:
    class Full:
        def pwrite(self, data: bytes, position: int) -> int:
            return 0

    with pytest.raises(OSError, match="no bytes"):
        write_fully(Full(), b"1", 0)  # type: ignore[arg-type]


def test_an_atomic_write_leaves_the_old_or_the_new_content() -> None:
    for operations in range(6):
        for unsynced in (Unsynced.LOST, Unsynced.KEPT, Unsynced.TORN):
            fs = MemoryFileSystem()
            write_file_atomically(fs, "/a", b"old content")
            fs.hook = stop_after(operations)
            try:
                write_file_atomically(fs, "/a", b"new content, and longer")
                finished = True
            except MachineStopped:
                finished = False
            fs.hook = None
            fs.crash(unsynced, seed=operations)
            found = read_file(fs, "/a")
            assert found == b"new content, and longer" or (not finished and found == b"old content")


def test_a_name_that_cannot_be_looked_at_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    """Else a device that fails would make an empty store of the metadata, and strays of all partitions."""
    fs, loop = OsFileSystem(), tmp_path / "metadata.snapshot"
    loop.symlink_to(loop)
    for look in (fs.exists, fs.is_dir):
        with pytest.raises(OSError, match="symbolic links"):
            look(str(loop))
        assert not look(f"{tmp_path}/missing/too")
    assert fs.is_dir(str(tmp_path))
    assert fs.exists(str(tmp_path))
    (tmp_path / "file").touch()
    assert not fs.is_dir(f"{tmp_path}/file")
    assert not fs.exists(f"{tmp_path}/file/below")
