"""A consumer group that only members of the classic protocol are left in becomes a classic group."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import MemberIdentity
from coordinator.group.consumer.group import ConsumerGroup
from protocol.errors import GroupIdNotFound, MessageTooLarge
from tests.unit.coordinator.group.consumer.clients import (
    ClassicConsumer,
    ConsumerClient,
    assignment,
    partitions_in,
    some,
)
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.offsets.rig import offset
from tests.unit.coordinator.group.rig import EMPTY, PREPARING, STABLE
from tests.unit.coordinator.group.steps import answer_of, refused

NONE, REJOIN = ErrorCode.none, ErrorCode.rebalance_in_progress


async def mixed(rig: ConsumerRig, **classic: Any) -> tuple[ConsumerClient, ClassicConsumer]:
    """A static member of the consumer protocol and a classic one, with half of the partitions each."""
    modern, old = ConsumerClient(rig, "m1", "a", instance="i1"), ClassicConsumer(rig, "c1", "a", **classic)
    modern.beat()
    old.rejoins()
    modern.beat()
    modern.beat()
    old.rejoins()
    return modern, old


@pytest.mark.parametrize("how", ["leaves", "is silent", "is removed"])
async def test_when_the_last_modern_member_goes_the_group_is_a_classic_one_that_rebalances(how: str) -> None:
    rig = await ConsumerRig.having({"a": 4}, session_timeout_ms=9_000)
    modern, old = await mixed(rig)
    modern.regex = "b"
    modern.beat()
    assert rig.consumers.resolved.keys() == {"b"}
    rig.commit(offset(0, 7, "a"), member_id="m1", generation=3)
    if how == "leaves":
        modern.leave()
    elif how == "is removed":
        assert answer_of(rig.leave(MemberIdentity("", "i1"))) == (NONE,)
    else:
        await rig.pass_ms(9_001)
    assert rig.shard.groups.modern.find(ConsumerGroup, "readers") is None
    assert (rig.group.state, rig.group.generation, rig.group.protocol_name) == (PREPARING, 3, "range")
    assert rig.group.subscribed_topics == {"a"}
    assert partitions_in(rig.group.members[old.member_id].assignment) == some(2, 3)
    assert rig.timers == []
    assert await log_tells(rig)
    assert answer_of(old.heartbeat()) is REJOIN
    joined = old.join()
    assert (answer_of(joined).generation, answer_of(joined).leader) == (4, old.member_id)
    assert answer_of(old.sync({old.member_id: assignment(some(0, 1, 2, 3))})).error is NONE
    assert rig.group.state is STABLE
    assert refused(modern.send(member_epoch=3)) is ErrorCode.group_id_not_found
    await rig.restart()
    assert (rig.group.state, rig.group.generation) == (STABLE, 4)
    assert rig.committed() == {("a", 0): 7}
    await rig.pass_ms(10_001)
    assert rig.group.state is EMPTY


async def test_what_the_classic_group_begins_with_is_the_target_that_its_members_had_not_come_to() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    modern = ConsumerClient(rig, "m1", "b")
    modern.beat()
    first, second = ClassicConsumer(rig, "c1", "a"), ClassicConsumer(rig, "c2", "a")
    assert [first.rejoins(), second.rejoins()] == [some(0, 1, 2, 3), {}]
    modern.leave()
    shares = [partitions_in(rig.group.members[one.member_id].assignment) for one in (first, second)]
    assert shares == [some(0, 1), some(2, 3)]


async def test_replaced_by_a_classic_static_member_the_last_modern_one_goes_without_a_rebalance() -> None:
    rig = await ConsumerRig.having({"a": 4})
    modern, old = await mixed(rig)
    back = ClassicConsumer(rig, "c2", "a", instance="i1")
    joined = answer_of(back.join())
    assert (joined.error, joined.generation) == (NONE, 3)
    assert (rig.group.state, rig.group.generation) == (STABLE, 3)
    assert rig.group.members.keys() == {old.member_id, back.member_id}
    assert rig.timers == []
    assert rig.session_timers == 2
    assert [partitions_in(answer_of(one.sync()).assignment) for one in (back, old)] == [some(0, 1), some(2, 3)]
    assert [answer_of(one.heartbeat()) for one in (back, old)] == [NONE, NONE]
    assert refused(modern.send(member_epoch=3)) is ErrorCode.group_id_not_found
    assert await log_tells(rig)
    await rig.restart()
    assert [answer_of(one.heartbeat()) for one in (back, old)] == [NONE, NONE]


@pytest.mark.parametrize("classic_max", [None, 1], ids=["by policy", "by size"])
async def test_a_group_that_may_not_be_classic_stays_a_consumer_group_of_classic_members(
    classic_max: int | None,
) -> None:
    rig = await ConsumerRig.having({"a": 4}, may_downgrade=classic_max is not None)
    modern, old = await mixed(rig)
    second = ClassicConsumer(rig, "c2", "a")
    second.rejoins()
    if classic_max is not None:
        rig.config = type(rig.config)(initial_rebalance_delay_ms=0, max_size=classic_max)
        await rig.restart()
    modern.leave()
    assert rig.consumers.members.keys() == {old.member_id, second.member_id}
    for member in (old, second) * 2:
        if answer_of(member.heartbeat()) is REJOIN:
            member.rejoins()
    assert rig.consumers.state_name == "Stable"
    assert len(old.owned["a"]) == len(second.owned["a"]) == 2
    assert await log_tells(rig)


async def test_a_failed_downgrade_leaves_the_consumer_group_as_it_was() -> None:
    rig = await ConsumerRig.having({"a": 4})
    modern, old = await mixed(rig)
    timers = rig.timers
    rig.log.fail_with = MessageTooLarge()
    assert refused(modern.send(member_epoch=-1)) is ErrorCode.unknown_server_error
    assert refused(ClassicConsumer(rig, "c2", "a", instance="i1").join()) is ErrorCode.unknown_server_error
    rig.log.fail_with = None
    assert (modern.beat().member_epoch, answer_of(old.heartbeat()), rig.timers) == (3, NONE, timers)
    assert rig.group_types() == {"readers": "consumer"}


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (b"", "Buffer underflow while parsing consumer protocol's header"),
        (b"\0", "Buffer underflow while parsing consumer protocol's header"),
        (b"\xff\xfe\0\0", "Unsupported assignment version: -2"),
    ],
)
async def test_with_unreadable_metadata_of_the_common_protocol_nobody_can_leave(metadata: bytes, why: str) -> None:
    rig = await ConsumerRig.having({"a": 4})
    modern, old = await mixed(rig, protocols=("range", "sticky"), session_ms=100_000)
    old.metadata["sticky"] = metadata
    old.joined()
    other = ClassicConsumer(rig, "c2", "a", protocols=("sticky",), session_ms=100_000)
    other.joined()
    with pytest.raises(GroupIdNotFound) as caught:
        modern.leave()
    assert str(caught.value) == f"Cannot downgrade the classic group readers: {why}."
    assert "m1" in rig.consumers.members
    await rig.pass_ms(45_001)
    assert "m1" in rig.consumers.members, "as in Kafka, which takes it for a group that is gone"
    assert "session of m1" not in rig.timers
    modern.beat()
    assert "session of m1" in rig.timers


async def test_classic_members_that_may_not_become_a_classic_group_get_what_the_last_modern_member_had() -> None:
    """Kafka 4.4 leaves these partitions without an owner."""
    rig = await ConsumerRig.having({"a": 4}, may_downgrade=False, assignment_interval=lambda: 1_000)
    modern, old = ConsumerClient(rig, "m1", "a"), ClassicConsumer(rig, "c1", "a")
    modern.beat()
    await rig.pass_ms(1_000)
    old.rejoins()
    modern.beat()
    modern.beat()
    assert old.rejoins() == some(2, 3)
    modern.leave()
    assert answer_of(old.heartbeat()) is NONE, "the last target is younger than the interval"
    await rig.pass_ms(1_000)
    assert answer_of(old.heartbeat()) is REJOIN
    assert old.rejoins() == some(0, 1, 2, 3)
    assert answer_of(old.heartbeat()) is NONE
    assert await log_tells(rig)
