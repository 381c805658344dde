"""The power failing at any moment while a log moves to another folder."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import pytest

from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.folders.moving import CONFIG, MovingRig, fill, finish, folders
from tests.unit.storage.folders.two_folders import folder_of
from tests.unit.storage.support import append, batch, contents

SAMPLE = 30


@dataclass
class Promise:
    """What the disk held before an operation, and what must be found on it."""

    fs: MemoryFileSystem
    operation: str
    flushed: int
    start: int
    appended: list[bytes]


async def moved_with_appends(keep: set[int]) -> tuple[int, list[Promise]]:
    """A move with appends and a new log start on the way; the moments to `keep`, and how many there were."""
    rig = MovingRig(MemoryFileSystem(), CONFIG)
    log = rig.log()
    fill(log)
    rig.workers.run_all()
    appended = contents(log)
    log.increment_log_start_offset(3)
    rig.manager.checkpoint_log_start_offsets()
    promises: list[Promise] = []
    start, count = 3, 0

    def note(operation: str, path: str) -> None:
        nonlocal count
        count += 1
        if count in keep:
            rig.files.hook = None
            promises.append(Promise(rig.files.copy(), f"{operation} {path}", log.flushed.offset, start, appended))
            rig.files.hook = note

    def add(value: bytes) -> None:
        data = batch(value)
        append(log, data)
        appended.append(bytes(data))

    rig.files.hook = note
    step = rig.services.workers.call

    async def busy(work: Any) -> Any:
        nonlocal start
        if log.log_end_offset < 50:
            add(b"meanwhile %d" % log.log_end_offset)
        if log.log_end_offset == 40:
            log.increment_log_start_offset(9)
            rig.manager.checkpoint_log_start_offsets()
            start = 9
        await asyncio.sleep(0)
        return await step(work)

    rig.workers.call = busy
    await finish(rig, rig.move().run())
    rig.workers.call = step
    for number in range(8):
        add(b"after %d" % number)
        log.flush()
        rig.workers.run_all()
    rig.clock.advance(60_000)
    rig.workers.run_all()
    rig.files.hook = None
    return count, promises


@pytest.mark.long
@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_whenever_the_power_fails_there_is_one_log_with_all_that_was_promised(unsynced: Unsynced) -> None:
    total, _ = await moved_with_appends(set())
    assert total > 100
    chosen = set(random.Random(unsynced.value).sample(range(1, total + 1), SAMPLE)) | set(range(total - 130, total))
    _, promises = await moved_with_appends(chosen)
    found_in = set()
    for promise in promises:
        promise.fs.crash(unsynced, seed=unsynced.value)
        for _ in range(2):
            rig = MovingRig(promise.fs, CONFIG)
            log = rig.manager.get("t", 0)
            assert log is not None, promise.operation
            assert folders(promise.fs) == [log.folder], promise.operation
            assert log.log_end_offset >= promise.flushed, promise.operation
            assert log.log_start_offset >= promise.start, promise.operation
            mine = contents(log)
            first = promise.appended.index(mine[0])
            assert mine == promise.appended[first : first + len(mine)], promise.operation
            assert [entry.epoch for entry in log.leader_epochs.entries] == [0]
            assert log.producers.producers[1].last_sequence >= 11
            found_in.add(folder_of(log))
            rig.manager.close()
    assert found_in == {"/one", "/two"}
