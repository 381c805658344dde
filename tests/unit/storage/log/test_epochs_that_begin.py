"""A leader epoch that began with the node's start, and is in no file before its first records are flushed."""

from __future__ import annotations

import errno

import pytest

from storage.append_types import LogConfig
from storage.folders import log_move
from storage.log.leader_epochs import LeaderEpochs
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.folders.moving import CONFIG, MovingRig, finish
from tests.unit.storage.support import Rig, append, contents, headers_in


def begun(rig: Rig, count: int = 1) -> UnifiedLog:
    """The log after a restart, in epoch 2, with records of epoch 0."""
    for _ in range(count):
        append(rig.log())
    log = rig.restart()
    log.begin_epoch(2)
    return log


def refuse_epochs(rig: Rig, operation: str, error: int) -> MemoryFileSystem:
    def hook(kind: str, path: str) -> None:
        if kind == operation and "leader-epoch" in path:
            raise OSError(error, "injected", path)

    rig.files.hook = hook
    return rig.files


@pytest.mark.parametrize("operation, error", [("open", errno.EMFILE), ("pwrite", errno.ENOSPC)])
def test_what_keeps_an_epoch_from_its_file_keeps_no_record_from_the_device(operation: str, error: int) -> None:
    rig = Rig(config=LogConfig(segment_bytes=200))
    log = begun(rig)
    fs = refuse_epochs(rig, operation, error)
    while len(log.segments) < 3:
        append(log, epoch=2)
    log.flush()
    rig.workers.run_all()
    assert log.flushed.offset == log.log_end_offset
    assert log.leader_epochs.is_unsaved(log.log_end_offset)
    fs.hook = None
    log.flush()
    rig.workers.run_all()
    assert not log.is_offline
    assert LeaderEpochs(rig.fs, log.folder).entries == ((0, 0), (2, 1))
    before = contents(log)
    rig.manager.checkpoint_recovery_points()
    fs.crash(Unsynced.LOST)
    rig.workers.drop_all()
    assert contents(rig.reopen()) == before


async def test_a_move_takes_it_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_move, "CAUGHT_UP", (100, 1))  # so that there is a first round, while which others write
    rig = MovingRig(config=CONFIG)
    log = begun(rig, 30)
    move = rig.move()
    first_round = move._round

    async def write_meanwhile() -> None:
        monkeypatch.setattr(move, "_round", first_round)
        await first_round()
        for _ in range(6):
            append(log, epoch=2)
        rig.workers.run_all()

    monkeypatch.setattr(move, "_round", write_meanwhile)
    await finish(rig, move.run())
    assert log.folder == "/two/t-0"
    assert rig.restart().leader_epochs.entries == ((0, 0), (2, 30))


def test_a_flush_of_a_deleted_log_leaves_its_successor_alone() -> None:
    rig = Rig()
    log = begun(rig, 3)
    append(log, epoch=2)
    log.flush()
    rig.manager.delete_log_soon("t", 0)
    successor = rig.log()
    for _ in range(5):
        append(successor)
    rig.workers.run_all()
    log = rig.restart()
    assert log.leader_epochs.entries == ((0, 0),)
    assert {header.leader_epoch for batch in contents(log) for header in headers_in(batch)} == {0}


def test_an_epoch_with_records_is_saved_though_another_has_begun_without_any() -> None:
    """As when a follower begins to lead: a later recovery does not read the flushed records again."""
    rig = Rig()
    log = begun(rig)
    append(log, epoch=2)
    log.begin_epoch(4)
    log.flush()
    rig.workers.run_all()
    assert LeaderEpochs(rig.fs, log.folder).entries == ((0, 0), (2, 1), (4, 2))
    rig.manager.checkpoint_recovery_points()
    rig.files.crash(Unsynced.LOST)
    rig.workers.drop_all()
    assert rig.reopen().leader_epochs.entries == ((0, 0), (2, 1))
