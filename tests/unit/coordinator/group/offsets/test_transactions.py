"""Commits inside transactions: kept apart until their marker (KIP-98, KIP-447)."""

from __future__ import annotations

import pytest

from tests.unit.coordinator.group.offsets.rig import NONE, OffsetRig, offset


@pytest.mark.parametrize("restart", [False, True], ids=["live", "loaded"])
async def test_a_pending_commit_counts_from_its_commit_marker_on(restart: bool) -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 1))
    assert rig.commit_in_transaction(9, offset(0, 5), offset(1, 6)) == [NONE, NONE]
    if restart:
        await rig.restart()
    assert rig.committed() == {("topic", 0): 1}
    rig.end(9, committed=True)
    assert rig.committed() == {("topic", 0): 5, ("topic", 1): 6}
    await rig.restart()
    assert rig.committed() == {("topic", 0): 5, ("topic", 1): 6}


async def test_an_aborted_commit_never_counts() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 1))
    rig.commit_in_transaction(9, offset(0, 5))
    rig.end(9, committed=False)
    assert rig.committed() == {("topic", 0): 1}
    assert rig.fetch(stable=True).unstable == frozenset()


async def test_a_marker_ends_its_producers_transaction_alone() -> None:
    rig = await OffsetRig.started()
    rig.commit_in_transaction(8, offset(0, 5))
    rig.commit_in_transaction(9, offset(1, 6))
    rig.end(8, committed=True)
    assert rig.committed() == {("topic", 0): 5}
    rig.end(7, committed=True)
    assert rig.fetch(stable=True, wanted=[("topic", 1)]).unstable == {("topic", 1)}


async def test_unstable_offset_commit_for_stable_reads_of_what_is_pending() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 1), offset(1, 1))
    rig.commit_in_transaction(9, offset(0, 5), offset(2, 6))
    asked = [("topic", index) for index in range(4)]
    assert rig.fetch(wanted=asked).unstable == frozenset()
    assert rig.fetch(wanted=asked, stable=True).unstable == {("topic", 0), ("topic", 2)}
    assert rig.fetch(stable=True).unstable == {("topic", 0)}


async def test_of_a_pending_and_a_later_plain_commit_the_later_one_counts() -> None:
    rig = await OffsetRig.started()
    rig.commit_in_transaction(9, offset(0, 5))
    rig.commit(offset(0, 7))
    rig.end(9, committed=True)
    assert rig.committed() == {("topic", 0): 7}


async def test_a_pending_commit_makes_its_group() -> None:
    rig = await OffsetRig.started()
    rig.commit_in_transaction(9, offset(0, 5), group="new")
    assert rig.group_ids() == {"new"}


async def test_a_deleted_offset_takes_the_pending_one_along() -> None:
    rig = await OffsetRig.started()
    rig.commit_in_transaction(9, offset(0, 5), offset(1, 5))
    rig.delete({"topic": [0]})
    rig.end(9, committed=True)
    assert rig.committed() == {("topic", 1): 5}


async def test_what_a_commit_takes_over_comes_in_the_order_of_kafkas_maps() -> None:
    rig = await OffsetRig.started()
    rig.commit_in_transaction(9, offset(1, 25, topic="another.topic"))
    rig.commit_in_transaction(9, offset(2, 26, topic="x"))
    rig.end(9, committed=True)
    assert list(rig.committed()) == [("another.topic", 1), ("x", 2)]
