"""The share coordinator: initialize, write, read, delete share partitions; fencing; snapshots; loading."""

from __future__ import annotations

from uuid import UUID

import pytest

from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, StateBatch
from protocol.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.share.rig import KEY, TOPIC, Rig

STRANGE = SharePartitionKey("g", UUID(int=9), 0)
pytestmark = pytest.mark.asyncio


def accepted(first: int, last: int, epoch: int = 1, leader_epoch: int = 0) -> ShareWrite:
    return ShareWrite(epoch, leader_epoch, -1, (StateBatch(first, last, 2, 1),), last - first + 1)


async def test_what_was_written_is_read_also_after_a_load() -> None:
    rig = await Rig().started()
    rig.initialize(1, 10).result()
    rig.read()
    for at in range(10, 24, 2):
        rig.write(accepted(at, at + 1)).result()
    before = rig.read()
    assert (before.start_offset, before.batches) == (10, (StateBatch(10, 23, 2, 1),))
    await rig.started()
    assert rig.read() == before


async def test_after_some_updates_comes_a_snapshot_and_what_is_below_is_not_needed() -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    rig.read()
    for at in range(3):
        rig.write(accepted(at, at)).result()
    assert (rig.read().snapshot_epoch, rig.redundant_below()) == (0, 0)
    at = rig.log.log_end_offset
    rig.write(accepted(3, 3)).result()
    assert rig.read().snapshot_epoch == 1
    assert rig.redundant_below() == at


async def test_a_deleted_share_partition_needs_nothing() -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    ask(rig.runtime, lambda state: state.delete_topics({TOPIC})).result()
    assert rig.redundant_below() == rig.log.log_end_offset
    with pytest.raises(InvalidRequest):
        rig.read()


async def test_the_start_offset_moves_and_batches_below_are_forgotten() -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    rig.write(ShareWrite(1, 0, 0, (StateBatch(0, 9, 2, 1), StateBatch(10, 12, 0, 3)), 10)).result()
    rig.write(ShareWrite(1, 0, 10, (), 0)).result()
    state = rig.read()
    assert (state.start_offset, state.batches, state.complete_count) == (10, (StateBatch(10, 12, 0, 3),), 0)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (5, 3, (5, 3)),
        (5, 1, (5, 2)),
        (5, -1, (5, 2)),
        (3, 9, (5, 2)),
        (-1, 0, (5, 2)),
        (6, 0, (6, 0)),
        (6, -1, (6, -1)),
    ],
)
@pytest.mark.parametrize("updates", [0, 3])
async def test_the_delivery_complete_count_goes_with_the_start_offset(
    start: int, count: int, expected: tuple[int, int], updates: int
) -> None:
    """As in Kafka's records: an update says both, and so does the snapshot after some updates (`SNAPSHOT_EVERY`)."""
    rig = await Rig().started()
    rig.initialize(1, 5).result()
    for _ in range(updates):
        rig.write(ShareWrite(1, 0, 5, (), 2)).result()
    if not updates:
        rig.write(ShareWrite(1, 0, 5, (), 2)).result()
    rig.write(ShareWrite(1, 0, start, (), count)).result()
    assert (rig.read().start_offset, rig.read().complete_count) == expected
    before = rig.read()
    await rig.started()
    assert rig.read() == before


async def test_a_read_of_a_newer_leader_epoch_writes_the_count_as_it_was() -> None:
    rig = await Rig().started()
    rig.initialize(1, 5).result()
    rig.write(ShareWrite(1, 0, 6, (), -1)).result()
    rig.read(1)
    assert (rig.read(1).start_offset, rig.read(1).complete_count) == (6, -1)


async def test_former_leaders_are_fenced_after_it_began_anew_too() -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    rig.read(5)
    rig.initialize(2, 7).result()
    for _ in range(2):
        with pytest.raises(FencedLeaderEpoch):
            rig.read(4)
        with pytest.raises(FencedLeaderEpoch):
            rig.write(accepted(7, 7, 2, 4)).result()
        await rig.started()
    assert (rig.read(5).start_offset, rig.read(5).leader_epoch) == (7, 0)


async def test_initializing_anew_does_not_put_off_the_next_snapshot() -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    for at in range(2):
        rig.write(accepted(at, at)).result()
    rig.initialize(2).result()
    assert rig.read().snapshot_epoch == 1
    rig.write(accepted(0, 0, 2)).result()
    assert rig.read().snapshot_epoch == 1
    rig.write(accepted(1, 1, 2)).result()
    assert rig.read().snapshot_epoch == 2


@pytest.mark.parametrize(("epoch", "leader_epoch", "error"), [(0, 5, FencedStateEpoch), (1, 4, FencedLeaderEpoch)])
async def test_an_old_owner_is_fenced(epoch: int, leader_epoch: int, error: type[KafkaError]) -> None:
    rig = await Rig().started()
    rig.initialize(1).result()
    rig.read(5)
    with pytest.raises(error):
        rig.write(accepted(0, 0, epoch, leader_epoch)).result()
    with pytest.raises(FencedLeaderEpoch):
        rig.read(4)
    await rig.started()
    with pytest.raises(FencedLeaderEpoch):
        rig.read(4)


async def test_initializing_again_needs_at_least_the_state_epoch_and_resets() -> None:
    rig = await Rig().started()
    rig.initialize(3).result()
    rig.write(accepted(0, 5, 3)).result()
    with pytest.raises(FencedStateEpoch):
        rig.initialize(2).result()
    rig.initialize(3, 100).result()
    assert (rig.read().start_offset, rig.read().batches) == (100, ())


async def test_what_is_not_initialized_is_told_from_what_does_not_exist() -> None:
    rig = await Rig().started()
    with pytest.raises(InvalidRequest):
        rig.write(accepted(0, 0), STRANGE).result()
    with pytest.raises(UnknownTopicOrPartition):
        rig.initialize(1, 0, STRANGE).result()
    with pytest.raises(UnknownTopicOrPartition):
        ask(rig.runtime, lambda state: state.read_summary(STRANGE)).result()
    assert ask(rig.runtime, lambda state: state.read_summary(KEY)).result() is None
