"""The contents of folders are exchanged so that a kill after any operation leaves the old ones or the new ones."""

from __future__ import annotations

import pytest

from storage.state.capture import files_below, write_new
from storage.state.exchange import WORK, FolderExchange
from storage.state.manifest import FileEntry, StateManifest
from tests.doubles.files import MemoryFileSystem

ROOTS = ["/a", "/b"]
OLD = {"/a/meta.properties": b"old", "/a/t-0/0.log": b"old records", "/b/t-1/0.log": b"1", "/b/x": b"2"}
NEW = {"/a/meta.properties": b"new", "/a/t-0/0.log": b"new", "/a/u-0/0.log": b"3", "/b/x": b"4"}
SNAPSHOT = "/snapshot"


class KilledError(Exception):
    """The process was killed before an operation."""


def file_system() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for path, content in OLD.items():
        put(fs, path, content)
    for path, content in NEW.items():
        put(fs, f"{SNAPSHOT}/{ROOTS.index(path[:2])}{path[2:]}", content)
    for root in ROOTS:
        put(fs, f"{root}/.lock", b"")
    return fs


def put(fs: MemoryFileSystem, path: str, content: bytes) -> None:
    fs.mkdir(path.rpartition("/")[0])
    write_new(fs, path, content)


def manifest() -> StateManifest:
    folders: list[dict[str, FileEntry]] = [{}, {}]
    for path, content in NEW.items():
        crc = None if content == b"3" else 0
        folders[ROOTS.index(path[:2])][path[3:]] = FileEntry(len(content), crc)
    return StateManifest(1, "c", 0, folders)


def contents(fs: MemoryFileSystem) -> dict[str, bytes]:
    names = [f"{root}/{name}" for root in ROOTS for name in files_below(fs, root)]
    return {path: fs.open(path).pread(100, 0) for path in names if not path.endswith("/.lock")}


def restore(fs: MemoryFileSystem) -> None:
    exchange = FolderExchange(fs, ROOTS)
    exchange.prepare(SNAPSHOT, manifest())
    exchange.swap()
    exchange.confirm()
    exchange.discard()


def kill_before(fs: MemoryFileSystem, number: int) -> None:
    """Let the operation of that number, from now, be the one that is never done."""
    left = number

    def count(_operation: str, _path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    fs.hook = count


def test_a_restore_replaces_everything_but_the_lock() -> None:
    fs = file_system()
    restore(fs)
    assert contents(fs) == NEW
    assert all(fs.exists(f"{root}/.lock") for root in ROOTS)
    assert fs.open(f"{SNAPSHOT}/0/t-0/0.log").pread(9, 0) == b"new"


def test_undo_puts_back_what_was_there() -> None:
    fs = file_system()
    exchange = FolderExchange(fs, ROOTS)
    exchange.prepare(SNAPSHOT, manifest())
    exchange.swap()
    put(fs, "/a/new-0/0.log", b"made by a start that failed")
    exchange.undo()
    assert contents(fs) == OLD
    assert not any(fs.exists(f"{root}/{WORK}") for root in ROOTS)


def test_a_kill_before_any_operation_leaves_the_old_contents_or_the_new() -> None:
    seen = []
    for number in range(1_000):
        fs = file_system()
        kill_before(fs, number)
        try:
            restore(fs)
        except KilledError:
            fs.hook = None
        else:
            break
        FolderExchange(fs, ROOTS).undo_unfinished()
        assert contents(fs) in (OLD, NEW), number
        assert not any(fs.exists(f"{root}/{WORK}") for root in ROOTS)
        seen.append(contents(fs) == NEW)
    assert number > 40
    assert seen == sorted(seen)  # once confirmed, it stays
    assert seen.count(True) > 3


def test_a_kill_while_it_is_undone_loses_nothing_either() -> None:
    for number in range(1_000):
        fs = file_system()
        exchange = FolderExchange(fs, ROOTS)
        exchange.prepare(SNAPSHOT, manifest())
        exchange.swap()
        kill_before(fs, number)
        try:
            exchange.undo()
        except KilledError:
            fs.hook = None
            FolderExchange(fs, ROOTS).undo_unfinished()
            assert contents(fs) == OLD, number
        else:
            break
    assert number > 20


def test_what_cannot_be_laid_out_leaves_nothing_behind() -> None:
    fs = file_system()
    fs.unlink(f"{SNAPSHOT}/1/x")
    with pytest.raises(FileNotFoundError):
        FolderExchange(fs, ROOTS).prepare(SNAPSHOT, manifest())
    assert contents(fs) == OLD
    assert not any(fs.exists(f"{root}/{WORK}") for root in ROOTS)
