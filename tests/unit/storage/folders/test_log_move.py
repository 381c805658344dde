"""Moving a log to another folder while it is written to."""

from __future__ import annotations

import asyncio
import errno
import itertools
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from protocol.errors import KafkaError, KafkaStorage, NotLeaderOrFollower
from storage.folders.log_move import LogMove, MoveEndedError
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.folders.moving import (
    CONFIG,
    UNIQUE,
    MovingRig,
    fill,
    finish,
    folders,
    state_of,
)
from tests.unit.storage.folders.two_folders import folder_of
from tests.unit.storage.support import append, batch, contents, create_log


@pytest.fixture
def rig() -> MovingRig:
    return MovingRig(MemoryFileSystem(), CONFIG)


async def test_a_log_that_moved_is_what_it_was(rig: MovingRig) -> None:
    log = rig.log()
    fill(log)
    log.increment_log_start_offset(5)
    before = state_of(log)
    assert len(before.segments) > 2
    assert before.aborted
    await finish(rig, rig.move().run())
    assert log is rig.log()
    assert folder_of(log) == "/two"
    assert state_of(log) == before
    assert log.flushed.offset == log.log_end_offset
    rig.restart()
    assert state_of(rig.log()) == before
    assert folder_of(rig.log()) == "/two"
    assert folders(rig.files) == ["/two/t-0"]


@pytest.mark.parametrize("stop", ["restart", "kill", "crash"])
async def test_appends_go_on_after_the_move(rig: MovingRig, stop: str) -> None:
    fill(rig.log())
    await finish(rig, rig.move().run())
    log = rig.log()
    for number in range(30):
        append(log, batch(b"later %d" % number))
    rig.workers.run_all()
    before = state_of(log)
    if stop == "crash":
        log.flush()
        rig.workers.run_all()
        rig.files.crash(Unsynced.LOST)
        rig.reopen()
    else:
        getattr(rig, stop)()
    assert state_of(rig.log()) == before
    assert folder_of(rig.log()) == "/two"


async def test_there_and_back_again(rig: MovingRig) -> None:
    fill(rig.log())
    before = state_of(rig.log())
    await finish(rig, rig.move().run())
    rig.clock.advance(60_000)
    rig.workers.run_all()
    assert folders(rig.files) == ["/two/t-0"]
    await finish(rig, rig.move("/one").run())
    assert state_of(rig.log()) == before
    rig.files.crash(Unsynced.LOST)
    assert state_of(rig.reopen()) == before
    assert folders(rig.files) == ["/one/t-0"]


async def test_the_old_folder_goes_later_and_reads_under_way_end_well(rig: MovingRig) -> None:
    log = rig.log()
    fill(log)
    plan = log.plan_read(0, 100, log.end, True)
    expected = plan.try_read()
    reading = log.segments.first.file
    old = reading.acquire()
    await finish(rig, rig.move().run())
    assert [name.rpartition("-")[2] for name in folders(rig.files)] == ["delete", "0"]
    rig.clock.advance(60_000)
    rig.workers.run_all()
    assert folders(rig.files) == ["/two/t-0"]
    assert bytes(old.pread(100, 0)) == bytes(expected or b"")[:100], "however long the read takes"
    open_files = rig.files.open_files
    reading.release()
    assert rig.files.open_files == open_files - 1
    assert not log.is_offline


async def test_what_is_appended_meanwhile_comes_along(rig: MovingRig) -> None:
    log = rig.log()
    fill(log)
    moving = asyncio.ensure_future(rig.move().run())
    step = rig.services.workers.call
    added = 0

    async def busy(work: Any) -> Any:
        nonlocal added
        if added < 40:
            append(log, batch(b"meanwhile %d" % added))
            added += 1
            if added % 5 == 0:
                log.flush()
        await asyncio.sleep(0)
        return await step(work)

    rig.workers.call = busy
    while not moving.done():
        await asyncio.sleep(0)
        rig.workers.run_all()
    await moving
    rig.workers.call = step
    assert added > 10
    assert folder_of(log) == "/two"
    assert sum(b"meanwhile" in batch for batch in contents(log)) == added
    before = state_of(log)
    rig.files.crash(Unsynced.LOST)
    assert state_of(rig.reopen()) == before


async def test_a_log_that_cannot_be_written_there_stays(rig: MovingRig) -> None:
    fill(rig.log())
    before = state_of(rig.log())
    for operation in ("pwrite", "fdatasync", "mkdir", "open"):
        rig.files.inject(Fault(operation, 1, errno.ENOSPC, path_part="-future"))
        with pytest.raises(OSError, match="injected"):
            await finish(rig, rig.move().run())
        assert folders(rig.files) == ["/one/t-0"]
        assert not rig.log().is_offline
        assert not rig.manager.moving
    append(rig.log(), batch(b"more"))
    await finish(rig, rig.move().run())
    assert len(contents(rig.log())) == len(before.contents) + 1


@pytest.mark.parametrize(
    "operation, path_part, number, failed, stays",
    [
        ("pread", "/one/t-0/", 1, "/one", False),
        ("open", "/one/t-0/", 1, "/one", False),
        ("mkdir", "-future", 1, "/two", True),
        ("pwrite", "-future/", 1, "/two", True),
        ("fdatasync", "-future/", 1, "/two", True),
        ("rename", "-future/", 1, "/two", True),  # its partition.metadata
        ("rename", "-future", 2, "/two", False),
        ("rename", "/one/t-0", 1, "/one", False),
        ("rename", "-moved", 1, "/two", False),
    ],
)
async def test_a_device_that_fails_under_a_move_takes_its_own_folder_offline(
    rig: MovingRig, operation: str, path_part: str, number: int, failed: str, stays: bool
) -> None:
    fill(rig.log())
    rig.log().flush()
    rig.workers.run_all()
    before = state_of(rig.log())
    rig.files.inject(Fault(operation, number, errno.EIO, path_part=path_part))
    with pytest.raises((OSError, KafkaStorage)):
        await finish(rig, rig.move().run())
    assert rig.manager.failed_folders == {failed}
    assert rig.log().is_offline is not stays
    rig.kill()
    assert state_of(rig.log()) == before


async def test_what_cannot_be_read_is_named(rig: MovingRig) -> None:
    fill(rig.log())
    rig.files.inject(Fault("open", 1, errno.EMFILE, path_part="/one/t-0/"))
    with pytest.raises(OSError, match=r"injected: '/one/t-0/0+\.log'"):
        await finish(rig, rig.move().run())


async def test_a_failure_while_changing_places_takes_the_log_offline_until_the_start(rig: MovingRig) -> None:
    fill(rig.log())
    rig.log().flush()
    rig.workers.run_all()
    before = state_of(rig.log())
    rig.files.inject(Fault("rename", 1, errno.EIO, path_part="/one/t-0"))
    with pytest.raises(KafkaStorage):
        await finish(rig, rig.move().run())
    assert rig.log().is_offline
    with pytest.raises(KafkaStorage):
        append(rig.log())
    rig.kill()
    assert state_of(rig.log()) == before
    assert folders(rig.files) == ["/two/t-0"]


async def test_a_deleted_partition_is_not_moved(rig: MovingRig) -> None:
    fill(rig.log())
    move = rig.move()
    rig.manager.delete_log_soon("t", 0)
    with pytest.raises(MoveEndedError):
        await finish(rig, move.run())
    assert [name for name in folders(rig.files) if not name.endswith("-delete")] == []


async def test_a_cancelled_move_leaves_no_copy(rig: MovingRig) -> None:
    fill(rig.log())
    move = rig.move()
    moving = asyncio.ensure_future(move.run())
    await asyncio.sleep(0)
    move.cancel()
    with pytest.raises(MoveEndedError):
        await finish(rig, _wait(moving))
    assert folders(rig.files) == ["/one/t-0"]


async def _wait(task: asyncio.Task[None]) -> None:
    await task


@pytest.mark.parametrize("segment_bytes", [90, 1 << 20])
async def test_a_log_that_grows_as_fast_as_it_is_copied_refuses_appends_for_a_moment(
    rig: MovingRig, segment_bytes: int
) -> None:
    log = rig.log()
    log.config = replace(CONFIG, segment_bytes=segment_bytes)
    step = rig.workers.call
    written: list[bytes] = []
    refused = 0

    async def busy(work: Any) -> Any:
        nonlocal refused
        for number in range(3 if folder_of(log) == "/one" else 0):
            data = batch(b"%d" % number if segment_bytes < 100 else b"x" * (30 << 10))
            try:
                append(log, data)
            except NotLeaderOrFollower:
                refused += 1
            else:
                written.append(bytes(data))
        return await step(work)

    rig.workers.call = busy
    await finish(rig, rig.move().run())
    rig.workers.call = step
    assert refused
    assert len(written) > 10
    assert contents(log) == written
    append(log)
    log.flush()
    rig.workers.run_all()
    assert log.flushed.offset == log.log_end_offset
    assert folder_of(log) == "/two"


async def test_flushes_wait_while_a_log_changes_places_and_then_cover_all(rig: MovingRig) -> None:
    log = rig.log()
    fill(log)
    rig.workers.run_all()
    flushed = log.flushed.offset
    step = rig.workers.call
    during: list[tuple[str, int]] = []

    async def busy(work: Any) -> Any:
        if "-moved" in log.folder:
            append(log, batch(b"in between"))
            log.flush()
            rig.workers.run_all()
            during.append((log.folder.rpartition("/")[0], log.flushed.offset))
        return await step(work)

    rig.workers.call = busy
    await finish(rig, rig.move().run())
    assert set(during) == {("/two", flushed)}
    assert log.flushed.offset == log.log_end_offset
    before = state_of(log)
    rig.files.crash(Unsynced.LOST)
    assert state_of(rig.reopen()) == before


async def test_a_partition_deleted_in_the_middle_of_changing_places_is_gone(rig: MovingRig) -> None:
    log = rig.log()
    fill(log)
    step = rig.workers.call

    async def deletes(work: Any) -> Any:
        if "-moved" in log.folder and rig.manager.get("t", 0) is log:
            rig.manager.delete_log_soon("t", 0)
        return await step(work)

    rig.workers.call = deletes
    with pytest.raises(MoveEndedError):
        await finish(rig, rig.move().run())
    rig.workers.call = step
    rig.clock.advance(60_000)
    rig.workers.run_all()
    rig.topic_id = UUID(int=0)
    append(create_log(rig.manager, "t", 0, UUID(int=0), CONFIG), batch(b"anew"))
    assert len(contents(rig.restart())) == 1


@pytest.mark.parametrize("ended_by", ["failure", "deletion"])
async def test_a_move_that_ends_after_the_log_changed_places_closes_the_old_files(
    rig: MovingRig, ended_by: str
) -> None:
    fill(rig.log())

    def ends(operation: str, path: str) -> None:
        if operation == "rename" and path.startswith("/one/t-0"):
            if ended_by == "failure":
                raise OSError(errno.EIO, "gone", path)
            rig.files.hook = None
            rig.manager.delete_log_soon("t", 0)

    rig.files.hook = ends
    with pytest.raises((KafkaStorage, MoveEndedError)):
        await finish(rig, rig.move().run())
    rig.clock.advance(60_000)
    rig.workers.run_all()
    rig.manager.release()
    assert not rig.files.open_files


async def test_a_move_waits_for_the_cleaner(rig: MovingRig) -> None:
    fill(rig.log())
    cleaning = True
    move = LogMove(rig.manager, rig.log(), rig.manager.log_dir("/two"), UNIQUE, lambda _: cleaning)
    moving = asyncio.ensure_future(move.run())
    await rig.clock.run(1000)
    assert not moving.done()
    assert folders(rig.files) == ["/one/t-0"]
    assert ("t", 0) in rig.manager.moving
    cleaning = False
    await rig.clock.run(1000)
    await finish(rig, _wait(moving))
    assert folder_of(rig.log()) == "/two"


def test_an_unfinished_copy_is_removed_at_the_start(rig: MovingRig) -> None:
    append(rig.log())
    rig.fs.mkdir("/two/t-0.0000000000000000000000000000000a-future")
    rig.restart()
    assert folders(rig.files) == ["/one/t-0"]
    assert len(contents(rig.log())) == 1


async def test_a_folder_that_a_deleted_topic_left_keeps_no_start_from_finishing_a_move(rig: MovingRig) -> None:
    append(rig.log())
    rig.fs.mkdir("/two/t-0")
    rig.fs.open("/two/t-0/left behind", create=True).close()
    with pytest.raises(KafkaError):
        await finish(rig, rig.move().run())
    rig.kill()
    assert len(contents(rig.log())) == 1
    assert folders(rig.files) == ["/two/t-0"]


@pytest.mark.parametrize(
    "operation, error", [("open", errno.EMFILE), ("fsync_dir", errno.EMFILE), ("rename", errno.ENOSPC)]
)
async def test_what_passes_takes_no_log_offline_wherever_the_move_is(operation: str, error: int) -> None:
    for failing in itertools.count(1):
        rig = MovingRig(config=CONFIG)
        fill(rig.log())
        rig.workers.run_all()
        before = state_of(rig.log())
        fault = Fault(operation, failing, error)
        rig.files.inject(fault)
        moved = True
        try:
            await finish(rig, rig.move().run())
        except OSError:
            moved = False
        if fault.number:  # it was through before
            break
        assert state_of(rig.log()) == before
        assert folders(rig.files)[-1] == ("/two/t-0" if moved else "/one/t-0")
        append(rig.log(), batch(b"more"))
        rig.files.crash(Unsynced.LOST)
        assert len(contents(rig.reopen())) >= len(before.contents)
    assert failing > 3
