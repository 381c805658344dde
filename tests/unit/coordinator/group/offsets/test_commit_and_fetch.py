"""OffsetCommit and OffsetFetch as the shard answers them."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from protocol.errors import GroupIdNotFound, IllegalGeneration, UnknownMemberId
from tests.unit.coordinator.group.offsets.rig import GROUP, NONE, OffsetRig, offset
from tests.unit.coordinator.group.rig import Client
from tests.unit.coordinator.group.steps import assign_all, completing, refused, stable


async def test_a_simple_consumers_commit_makes_its_group() -> None:
    rig = await OffsetRig.started()
    assert rig.commit(offset(0, 5, metadata="note", epoch=3), offset(1, 7)) == [NONE, NONE]
    assert rig.group.is_empty
    assert rig.group.protocol_type is None
    found = rig.fetch().offsets["topic", 0].value
    assert (found.offset, found.metadata, found.leader_epoch) == (5, "note", 3)
    assert rig.committed() == {("topic", 0): 5, ("topic", 1): 7}


async def test_the_group_of_no_name_and_any_offset_are_taken() -> None:
    rig = await OffsetRig.started()
    assert rig.commit(offset(0, -2), offset(1, -1), group="") == [NONE, NONE]
    assert rig.committed("") == {("topic", 0): -2, ("topic", 1): -1}


async def test_one_commit_is_one_batch() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), offset(1, 7), offset(0, 1, topic="other"))
    assert len(rig.log.written) == 1


async def test_a_null_note_is_stored_as_an_empty_one() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5, metadata=None))
    assert rig.fetch().offsets["topic", 0].value.metadata == ""


@pytest.mark.parametrize(("note", "fits"), [("x" * 10, True), ("x" * 11, False), ("😀" * 5, True), ("😀" * 6, False)])
async def test_notes_are_measured_in_utf16_units(note: str, fits: bool) -> None:
    rig = await OffsetRig.started(offset_metadata_max_bytes=10)
    codes = rig.commit(offset(0, 5, metadata=note), offset(1, 6))
    assert codes == [NONE if fits else ErrorCode.offset_metadata_too_large, NONE]
    assert (("topic", 0) in rig.committed()) is fits


async def test_a_generation_of_a_group_that_is_not_there() -> None:
    rig = await OffsetRig.started()
    assert refused(rig.ask_commit(offset(0, 1), generation=3, member_id="m")) is GroupIdNotFound.code
    old = rig.ask_commit(offset(0, 1), generation=3, member_id="m", knows_member_epochs=False)
    assert refused(old) is IllegalGeneration.code
    assert rig.log.written == []


@pytest.mark.parametrize("generation", [0, 3])
async def test_a_generation_for_an_empty_group(generation: int) -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 1))
    assert refused(rig.ask_commit(offset(0, 2), generation=generation, member_id="")) is UnknownMemberId.code
    assert rig.commit(offset(0, 2), member_id="stranger") == [NONE]


async def test_members_commit_with_their_generation_alone() -> None:
    rig = await OffsetRig.started()
    member = Client(rig)
    await stable(rig, member)
    who: dict[str, Any] = {"member_id": member.member_id, "generation": member.generation}
    assert rig.commit(offset(0, 1), **who) == [NONE]
    assert refused(rig.ask_commit(offset(0, 2), **(who | {"generation": 7}))) is IllegalGeneration.code
    assert refused(rig.ask_commit(offset(0, 2), **(who | {"member_id": "x"}))) is UnknownMemberId.code
    assert refused(rig.ask_commit(offset(0, 2))) is UnknownMemberId.code
    assert rig.committed() == {("topic", 0): 1}


async def test_rebalance_in_progress_for_commits_while_assignments_are_awaited_except_in_transactions() -> None:
    rig = await OffsetRig.started()
    member = Client(rig)
    await completing(rig, member)
    who: dict[str, Any] = {"member_id": member.member_id, "generation": member.generation}
    assert refused(rig.ask_commit(offset(0, 1), **who)) is ErrorCode.rebalance_in_progress
    assert rig.commit_in_transaction(9, offset(0, 1)) == [NONE]
    member.sync(assign_all([member]))
    assert rig.commit(offset(0, 1), **who) == [NONE]


async def test_a_commit_keeps_the_members_session_alive() -> None:
    rig = await OffsetRig.started()
    member = Client(rig, session_ms=10_000)
    await stable(rig, member)
    for value in range(4):
        await rig.pass_ms(8_000)
        rig.commit(offset(0, value), member_id=member.member_id, generation=member.generation)
    assert member.member_id in rig.group.members
    await rig.pass_ms(10_001)
    assert rig.group.is_empty


async def test_what_is_not_committed_is_left_out() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 1))
    assert list(rig.fetch(wanted=[("topic", 1), ("topic", 0), ("nope", 0)]).offsets) == [("topic", 0)]
    assert rig.fetch("nobody").offsets == {}
    assert rig.fetch("nobody", [("topic", 0)]).offsets == {}


async def test_a_fetch_waits_until_the_commit_it_sees_is_safe() -> None:
    rig = await OffsetRig.started()
    rig.log.hold = True
    commit = rig.ask_commit(offset(0, 5))
    fetch = rig.runtime.read(0, lambda state: state.offsets.fetch(GROUP, None, False))
    assert not commit.done()
    assert not fetch.done()
    rig.log.commit()
    assert commit.result() == [NONE]
    assert fetch.result().offsets["topic", 0].value.offset == 5


async def test_retention_of_the_clients_own_is_stored_as_the_time_of_expiry() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), retention_ms=1000)
    rig.commit(offset(1, 5))
    own, brokers = (value for _, value in rig.offset_records())
    now = rig.clock.wall_ms()
    assert own is not None
    assert brokers is not None
    assert (own.commit_timestamp, own.expire_timestamp) == (now, now + 1000)
    assert (brokers.commit_timestamp, brokers.expire_timestamp) == (now, -1)


async def test_commits_are_counted_by_the_offset() -> None:
    rig = await OffsetRig.started(offset_metadata_max_bytes=1)
    rig.commit(offset(0, 5), offset(1, 5), offset(2, 5, metadata="too long"))
    assert rig.counts.offset_commits == 2
