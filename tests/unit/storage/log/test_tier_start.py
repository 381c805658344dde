"""A follower's log that begins anew behind what is in remote storage (KIP-405, `TierStateMachine`)."""

from __future__ import annotations

import pytest

from protocol.topic_partition import EpochEntry
from storage.append_types import LogConfig
from storage.log.log_services import ReplicaState
from storage.log.tier_marker import path_in
from storage.log.tier_start import TierStart
from storage.log.unified_log import UnifiedLog
from storage.producers.snapshot_files import SnapshotEntry, encode
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.support import NOW, Rig, append, batch, copied_before_each_change
from tests.unit.storage.truncating import truncate

TIERED = LogConfig(segment_bytes=250, index_interval_bytes=1, remote_storage=True)
NEXT, START = 100, 10
Seen = tuple[int, int, tuple[tuple[int, ...], ...], dict[int, int], int | None]
"""Log start, log end, leader epochs, the last sequence of each producer, the first unstable offset."""
OPEN_TRANSACTION = SnapshotEntry(9, 3, 5, 98, 0, NOW, 1, 98)
STATE = ReplicaState(
    NEXT,
    (EpochEntry(0, 0), EpochEntry(2, 50), EpochEntry(3, 120)),
    encode([OPEN_TRANSACTION]),
)
NEW: Seen = (START, NEXT, ((0, START), (2, 50)), {9: 5}, 98)
EMPTY: Seen = (0, 0, (), {}, None)


def filled(fs: MemoryFileSystem) -> tuple[Rig, UnifiedLog]:
    """Three segments of other epochs and producers, all of them on disk."""
    rig = Rig(fs, TIERED)
    log = rig.log()
    for number in range(5):
        append(log, batch(b"x" * 20, producer_id=7, sequence=number), epoch=number // 2)
    rig.workers.run_all()
    rig.manager.checkpoint_log_start_offsets()
    return rig, log


def seen(log: UnifiedLog) -> Seen:
    """All that decides what a follower fetches, and what a leader tells."""
    producers = {producer: entry.last_sequence for producer, entry in log.producers.producers.items()}
    epochs = tuple(tuple(entry) for entry in log.leader_epochs.entries)
    return log.log_start_offset, log.log_end_offset, epochs, producers, log.producers.first_unstable_offset


def test_the_log_has_the_leader_epochs_and_producers_of_what_is_in_remote_storage(fs: MemoryFileSystem) -> None:
    rig, log = filled(fs)
    truncate(TierStart(log, STATE, START), log)
    assert seen(log) == NEW
    assert log.local_log_start_offset == NEXT
    assert append(log, batch(producer_id=7), epoch=3).first_offset == NEXT
    assert not fs.exists(path_in(log.folder))
    after = seen(rig.restart())
    assert after[:2] == (START, NEXT + 1)
    assert after[3] == {9: 5, 7: 0}


@pytest.mark.parametrize("unsynced", Unsynced)
def test_a_crash_at_any_moment_leaves_the_old_log_or_an_empty_one_or_the_new(
    fs: MemoryFileSystem, unsynced: Unsynced
) -> None:
    _, log = filled(fs)
    old = seen(log)
    copies = copied_before_each_change(fs)
    truncate(TierStart(log, STATE, START), log)
    found = set()
    for number, copy in enumerate([*copies, fs.copy()]):
        copy.hook = lambda *_: None
        copy.crash(unsynced, number)
        copy.unlock_all()
        begun = seen(Rig(copy, TIERED).log())
        # The files of the segments go from the last on: what is left is a log that was cut.
        is_cut = begun[0] == 0 and 0 < begun[1] <= old[1] and begun[2] == tuple(e for e in old[2] if e[1] < begun[1])
        assert is_cut or begun in (EMPTY, NEW), (number, begun)
        found.add(begun[1])
        assert not copy.exists(path_in(log.folder))
    assert {0, NEXT, old[1]} <= found


def test_what_was_not_begun_in_the_end_leaves_the_log_as_it_was(fs: MemoryFileSystem) -> None:
    rig, log = filled(fs)
    old = seen(log)
    start = TierStart(log, STATE, START)
    start.begin()
    with start.holding():
        start.lower()
    assert fs.exists(path_in(log.folder))
    start.give_up()
    assert not fs.exists(path_in(log.folder))
    assert seen(rig.restart()) == old


def test_a_log_that_is_deleted_meanwhile_gets_no_files(fs: MemoryFileSystem) -> None:
    _, log = filled(fs)
    start = TierStart(log, STATE, START)
    start.begin()
    log.retire()
    before = fs.listdir(log.folder)
    start.lower()
    start.follow()
    start.give_up()
    assert fs.listdir(log.folder) == before


def test_a_disk_that_fails_before_anything_has_gone_loses_nothing(fs: MemoryFileSystem) -> None:
    rig, log = filled(fs)
    old = seen(log)
    start = TierStart(log, STATE, START)
    start.begin()
    fs.inject(Fault("pwrite", 1, path_part=path_in("")))
    with pytest.raises(OSError, match="injected"):
        start.lower()
    assert seen(rig.kill()) == old
