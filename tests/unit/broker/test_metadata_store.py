"""LocalMetadataStore: compare-and-swap, group commit, watches, and what a restart finds after a crash."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest
from broker.metadata.entries import Commit, CorruptMetadataError, decode_entries, encode_entry
from broker.metadata.files import LOG_NAME, SNAPSHOT_NAME, MetadataFiles
from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.store import Change, MetadataStoreError, VersionConflictError, Versioned, retrying
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.files import File, OsFileSystem
from storage.workers import ThreadWorkers
from tests.doubles.files import Fault, MemoryFileSystem
from tests.doubles.workers import LoopWorkers

FS = OsFileSystem()


async def opened(folder: Path, snapshot_after_bytes: int = 1 << 20) -> LocalMetadataStore:
    return await LocalMetadataStore.open(
        FS, str(folder), ThreadWorkers(asyncio.get_running_loop(), 1), snapshot_after_bytes
    )


async def test_a_commit_is_read_back_and_its_revision_is_the_version(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    assert store.revision == 0
    assert await store.commit({"/a": 0}, {"/a": b"1", "/b": b"2"}) == 1
    assert await store.get("/a") == Versioned(b"1", 1)
    assert await store.commit({"/a": 1}, {"/a": b"3"}, ["/b"]) == 2
    assert await store.get("/b") is None
    assert await store.list("/") == {"/a": Versioned(b"3", 2)}


async def test_a_commit_that_expects_another_version_changes_nothing(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit({}, {"/a": b"1"})
    with pytest.raises(VersionConflictError):
        await store.commit({"/a": 0}, {"/a": b"2", "/b": b"2"})
    with pytest.raises(VersionConflictError):
        await store.commit({"/b": 1}, {"/a": b"2"})
    assert await store.list("/") == {"/a": Versioned(b"1", 1)}
    assert store.revision == 1


async def test_of_two_commits_at_once_that_expect_the_same_one_wins_and_the_loser_sees_it(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    winner = asyncio.create_task(store.commit({"/a": 0}, {"/a": b"first"}))
    await asyncio.sleep(0)
    with pytest.raises(VersionConflictError):
        await store.commit({"/a": 0}, {"/a": b"second"})
    assert await store.get("/a") == Versioned(b"first", 1)
    assert await winner == 1


async def test_concurrent_increments_through_retrying_lose_none(tmp_path: Path) -> None:
    store = await opened(tmp_path)

    async def increment() -> None:
        current = await store.get("/n")
        value = int(current.value) if current else 0
        await store.commit({"/n": current.version if current else 0}, {"/n": b"%d" % (value + 1)})

    await asyncio.gather(*(retrying(increment) for _ in range(20)))
    assert (await store.get("/n")) == Versioned(b"20", 20)


async def test_commits_that_wait_together_are_one_entry(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await asyncio.gather(*(store.commit({}, {f"/{n}": b""}) for n in range(10)))
    await store.close()
    entries = list(decode_entries((tmp_path / LOG_NAME).read_bytes(), "log"))
    assert [len(commits) for _, commits in entries] == [10]


async def test_a_watch_sees_the_changes_under_its_prefix_before_the_commit_returns(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    seen: list[Change] = []
    stop = store.watch("/t/", seen.append)
    await store.commit({}, {"/t/a": b"1", "/other": b"1"})
    assert seen == [Change(1, {"/t/a": Versioned(b"1", 1)})]
    await store.commit({}, {}, ["/t/a"])
    assert seen[1:] == [Change(2, {"/t/a": None})]
    stop()
    await store.commit({}, {"/t/a": b"2"})
    assert len(seen) == 2


@pytest.mark.parametrize("snapshot_after_bytes", [1, 300, 1 << 20])
async def test_a_restart_finds_every_commit_and_goes_on_from_its_revision(
    tmp_path: Path, snapshot_after_bytes: int
) -> None:
    store = await opened(tmp_path, snapshot_after_bytes)
    for n in range(30):
        await store.commit({}, {f"/{n % 7}": b"%d" % n, "/bytes": bytes(range(256))}, [f"/{(n + 3) % 7}"])
    state = await store.list("/")
    await store.close()
    again = await opened(tmp_path, snapshot_after_bytes)
    assert await again.list("/") == state
    assert await again.commit({}, {"/x": b""}) == 31


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.binary(max_size=20), min_size=1, max_size=5), data=st.data())
def test_a_log_cut_anywhere_keeps_the_whole_entries_before_the_cut(values: list[bytes], data: st.DataObject) -> None:
    entries = [encode_entry([Commit(n + 1, {"k": value})]) for n, value in enumerate(values)]
    log = b"".join(entries)
    cut = data.draw(st.integers(0, len(log)))
    whole = sum(1 for n in range(len(entries)) if len(b"".join(entries[: n + 1])) <= cut)
    decoded = [commits[0].puts["k"] for _, commits in decode_entries(log[:cut], "log")]
    assert decoded == values[:whole]


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_is_never_read_as_data(position: int, flip: int) -> None:
    entries = [encode_entry([Commit(n, {"key": b"value"})]) for n in (1, 2, 3)]
    log = bytearray(b"".join(entries))
    position %= len(log)
    log[position] ^= flip
    if position < len(entries[0]) + len(entries[1]):
        with pytest.raises(CorruptMetadataError, match="damaged"):
            list(decode_entries(bytes(log), "log"))
    else:
        assert [commits[0].revision for _, commits in decode_entries(bytes(log), "log")] == [1, 2]


async def test_a_torn_last_entry_is_dropped_and_the_log_goes_on(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit({}, {"/a": b"1"})
    await store.close()
    path = tmp_path / LOG_NAME
    path.write_bytes(path.read_bytes() + encode_entry([Commit(2, {"/a": b"2" * 100})])[:-1])
    again = await opened(tmp_path)
    assert await again.get("/a") == Versioned(b"1", 1)
    assert await again.commit({}, {"/a": b"3"}) == 2
    await again.close()
    assert await (await opened(tmp_path)).get("/a") == Versioned(b"3", 2)


async def test_a_damaged_entry_in_the_middle_stops_the_start(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit({}, {"/a": b"1"})
    await store.commit({}, {"/a": b"2"})
    await store.close()
    path = tmp_path / LOG_NAME
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptMetadataError, match="at byte 0 is damaged"):
        await opened(tmp_path)


async def test_damage_among_what_the_snapshot_has_is_passed_over(tmp_path: Path) -> None:
    """A crash while the log is emptied may leave any part of it."""
    files = MetadataFiles(OsFileSystem(), str(tmp_path))
    files.load()
    files.write_snapshot(2, {"/a": Versioned(b"2", 2)})
    files.empty_log()
    entries = [encode_entry([Commit(n, {"/a": b"%d" % n})]) for n in (1, 2, 3)]
    (tmp_path / LOG_NAME).write_bytes(bytes(len(entries[0])) + entries[1] + entries[2])
    assert await (await opened(tmp_path)).get("/a") == Versioned(b"3", 3)
    (tmp_path / LOG_NAME).write_bytes(bytes(len(entries[0])) + bytes(len(entries[1])) + entries[2])
    assert await (await opened(tmp_path)).get("/a") == Versioned(b"3", 3)
    (tmp_path / LOG_NAME).write_bytes(bytes(len(entries[2])) + encode_entry([Commit(4, {})]))
    with pytest.raises(CorruptMetadataError, match="at byte 0 is damaged"):
        await opened(tmp_path)


async def test_missing_commits_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_bytes(encode_entry([Commit(1, {})]) + encode_entry([Commit(3, {})]))
    with pytest.raises(CorruptMetadataError, match="commit 3 follows 1"):
        await opened(tmp_path)


async def test_a_damaged_snapshot_stops_the_start(tmp_path: Path) -> None:
    store = await opened(tmp_path, 1)
    await store.commit({}, {"/a": b"1"})
    await store.close()
    path = tmp_path / SNAPSHOT_NAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptMetadataError, match="snapshot is damaged"):
        await opened(tmp_path)


async def test_a_crash_between_snapshot_and_truncation_applies_nothing_twice(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit({}, {"/a": b"1"})
    await store.commit({}, {"/b": b"1"}, ["/a"])
    state = await store.list("/")
    await store.close()
    MetadataFiles(FS, str(tmp_path)).write_snapshot(2, state)
    assert (tmp_path / LOG_NAME).stat().st_size
    again = await opened(tmp_path)
    assert again.revision == 2
    assert await again.list("/") == {"/b": Versioned(b"1", 2)}


class FailingFile:
    def __init__(self, file: File, fs: FailingFileSystem) -> None:
        self._file = file
        self._fs = fs

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def fdatasync(self) -> None:
        if self._fs.broken:
            raise OSError(5, "Input/output error")
        self._file.fdatasync()


class FailingFileSystem(OsFileSystem):
    broken = False

    def open(self, path: str, *, create: bool = False) -> File:
        return FailingFile(super().open(path, create=create), self)  # type: ignore[return-value]


async def test_a_failed_fsync_fails_its_commits_and_every_later_one(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    store = await LocalMetadataStore.open(fs, str(tmp_path), ThreadWorkers(asyncio.get_running_loop(), 1))
    await store.commit({}, {"/a": b"1"})
    fs.broken = True
    results = await asyncio.gather(*(store.commit({}, {"/a": b"2"}) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [MetadataStoreError] * 3
    fs.broken = False
    with pytest.raises(MetadataStoreError, match="Input/output error"):
        await store.commit({}, {"/a": b"3"})
    assert await store.get("/a") == Versioned(b"1", 1)


async def test_whoever_waits_is_told_of_what_nobody_foresaw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    store = await opened(tmp_path)
    monkeypatch.setattr(MetadataFiles, "append", fail)
    with pytest.raises(MetadataStoreError, match="nobody foresaw this"):
        await store.commit({}, {"/a": b"1"})


async def test_a_closed_store_takes_no_commit(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    under_way = asyncio.create_task(store.commit({}, {"/a": b"1"}))
    await asyncio.sleep(0)
    await store.close()
    assert await under_way == 1
    with pytest.raises(MetadataStoreError, match="closed"):
        await store.commit({}, {"/a": b"2"})


async def test_writers_that_know_versions_by_a_watch_all_come_through(tmp_path: Path) -> None:
    """A watch is called on a turn of the loop of its own, which whoever tries again must leave to it."""
    store = await opened(tmp_path)
    seen = 0

    def note(change: Change) -> None:
        nonlocal seen
        seen = change.revision

    async def attempt() -> None:
        await store.commit({"/a": seen}, {"/a": b"x"})

    async def writer(number: int) -> None:
        for _ in range(20):
            for _ in range(number * 7):
                await asyncio.sleep(0)
            await retrying(attempt)

    store.watch("/a", note)
    await asyncio.gather(*(writer(number) for number in range(8)))
    assert store.revision == seen == 160


async def test_a_writer_that_always_loses_gives_up_and_lets_others_have_their_turn() -> None:
    turns = 0

    async def loses() -> None:
        raise VersionConflictError("/a", 0, 1)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    with pytest.raises(VersionConflictError):
        await retrying(loses)
    task.cancel()
    assert turns > 100


async def in_memory(fs: MemoryFileSystem, snapshot_after_bytes: int = 1 << 20) -> LocalMetadataStore:
    return await LocalMetadataStore.open(fs, "/data", LoopWorkers(), snapshot_after_bytes)


async def test_without_room_a_commit_fails_and_a_later_one_does_not() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    fs.fsync_dir("/")
    store = await in_memory(fs)
    await store.commit({"/a": 0}, {"/a": b"1"})
    fs.inject(Fault("pwrite", 1, errno.ENOSPC))
    refused = [store.commit({"/a": 1}, {"/a": b"2"}), store.commit({"/a": 2}, {"/a": b"3"})]
    answers = await asyncio.gather(*refused, return_exceptions=True)
    assert [type(answer) for answer in answers] == [MetadataStoreError, MetadataStoreError]
    assert await store.commit({"/a": 1}, {"/a": b"4"}) == 2
    fs.crash()
    assert await (await in_memory(fs)).list("/") == {"/a": Versioned(b"4", 2)}


@pytest.mark.parametrize(("operation", "error"), [("open", errno.EMFILE), ("fsync_dir", errno.EMFILE)])
async def test_a_snapshot_that_cannot_be_written_is_not_needed(operation: str, error: int) -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    fs.fsync_dir("/")
    store = await in_memory(fs, 100)
    fs.inject(Fault(operation, 1, error))
    for number in range(20):
        await store.commit({}, {f"/{number}": b"x"})
    assert fs.size(f"/data/{LOG_NAME}") < 1_000
    fs.crash()
    assert len(await (await in_memory(fs)).list("/")) == 20
