"""The metadata store against a small model: faults and crashes at any point lose nothing that was acknowledged."""

from __future__ import annotations

import asyncio

import pytest
from broker.metadata.entries import Commit
from broker.metadata.files import MetadataFiles
from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.store import MetadataStoreError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.doubles.workers import LoopWorkers

KEYS = st.sampled_from(["/a", "/b", "/c"])
COMMIT = st.tuples(st.dictionaries(KEYS, st.binary(max_size=30), max_size=3), st.sets(KEYS, max_size=1))


async def opened(fs: MemoryFileSystem) -> LocalMetadataStore:
    return await LocalMetadataStore.open(fs, "/data", LoopWorkers(), snapshot_after_bytes=400)


async def values(store: LocalMetadataStore) -> dict[str, bytes]:
    return {key: versioned.value for key, versioned in (await store.list("/")).items()}


def states(commits: list[tuple[dict[str, bytes], set[str]]], start: dict[str, bytes]) -> list[dict[str, bytes]]:
    """What the store holds after the first n of the commits, for every n."""
    found = [start]
    for puts, deletes in commits:
        kept = {key: value for key, value in found[-1].items() if key not in deletes}
        found.append({**kept, **puts})
    return found


@settings(max_examples=80, deadline=None)
@given(
    runs=st.lists(st.lists(COMMIT, min_size=1, max_size=12), min_size=1, max_size=4),
    fail_at=st.integers(1, 30),
    operation=st.sampled_from(["pwrite", "fdatasync", "truncate", "rename", "fsync_dir"]),
    at_once=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
@example(  # emptying the log fails once its snapshot is written, and the crash leaves its second half alone
    runs=[
        [({}, set()), ({}, {"/a"}), ({}, {"/a"})],
        [({}, set()), ({"/a": b"", "/b": b""}, set()), ({"/a": b"", "/b": b"", "/c": bytes(6)}, set())],
        [({"/a": bytes(4)}, set())],
    ],
    fail_at=3,
    operation="fdatasync",
    at_once=1,
    seed=273,
)
def test_a_crash_keeps_every_acknowledged_commit_in_order_and_nothing_half(
    runs: list[list[tuple[dict[str, bytes], set[str]]]], fail_at: int, operation: str, at_once: int, seed: int
) -> None:
    asyncio.run(_crash_again_and_again(runs, fail_at, operation, at_once, seed))


async def _crash_again_and_again(
    runs: list[list[tuple[dict[str, bytes], set[str]]]], fail_at: int, operation: str, at_once: int, seed: int
) -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    fs.fsync_dir("/")
    known: dict[str, bytes] = {}
    for number, commits in enumerate(runs):
        store = await opened(fs)
        assert await values(store) == known
        fs.inject(Fault(operation, fail_at))
        acknowledged = 0
        for start in range(0, len(commits), at_once):
            group = commits[start : start + at_once]
            results = await asyncio.gather(
                *(store.commit({}, puts, sorted(deletes - set(puts))) for puts, deletes in group),
                return_exceptions=True,
            )
            acknowledged += sum(isinstance(result, int) for result in results)
            assert all(isinstance(result, int | MetadataStoreError) for result in results)
        fs.crash(Unsynced.ANY, seed + number)
        found = await values(await opened(fs))
        possible = states(commits, known)[acknowledged:]
        assert found in possible
        known = found
        fs.crash(Unsynced.LOST, seed)


@pytest.mark.parametrize("unsynced", list(Unsynced))
@pytest.mark.parametrize("seed", range(5))
def test_what_a_recovery_told_a_second_crash_cannot_take_back(unsynced: Unsynced, seed: int) -> None:
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    fs.fsync_dir("/")
    files = MetadataFiles(fs, "/data")
    files.load()
    files.append([Commit(1, {"/a": b"1"})])
    fs.inject(Fault("fdatasync", 1))
    with pytest.raises(OSError, match="injected"):
        files.append([Commit(2, {"/a": b"2" * 300})])
    fs.crash(unsynced, seed)
    told = MetadataFiles(fs, "/data").load()
    fs.crash(Unsynced.LOST)
    assert MetadataFiles(fs, "/data").load() == told
