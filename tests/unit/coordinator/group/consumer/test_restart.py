"""The coordinator restarts, or its log refuses a record: what the log says is what there is."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.group.modern.group import MemberState
from protocol.errors import MessageTooLarge, NotEnoughReplicas
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, durable, log_tells
from tests.unit.coordinator.group.steps import refused

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
SESSION = 45_000


async def reconciling(rig: ConsumerRig) -> list[ConsumerClient]:
    """Members in each state: one stable, one away, one that is to give up and one that waits for it."""
    stable, away = ConsumerClient(rig, "m1", "b"), ConsumerClient(rig, "m2", regex="c", instance="i2")
    owner, waiter = ConsumerClient(rig, "m3", "a", rebalance_ms=20_000), ConsumerClient(rig, "m4", "a")
    for member in (stable, away, owner, away, waiter, stable):
        member.beat()
    away.leave(for_a_while=True)
    owner.beat(gives_up=False)
    assert [rig.member(one).state for one in (stable, owner, waiter)] == [STABLE, UNREVOKED, UNRELEASED]
    return [stable, away, owner, waiter]


async def test_nobody_loses_its_place() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 2, "c": 1})
    stable, _, owner, waiter = await reconciling(rig)
    before = durable(rig.consumers)
    assert await log_tells(rig)
    await rig.restart()
    assert durable(rig.consumers) == before
    back = ConsumerClient(rig, "m5", regex="c", instance="i2")
    assert stable.beat_briefly().assigned is None
    assert back.beat().assigned == rig.of(c=(0,))
    assert waiter.beat().assigned == {}
    owner.owned = rig.of(a=(0, 1))
    assert owner.beat().member_epoch == waiter.epoch == rig.consumers.epoch
    assert waiter.beat().assigned == rig.of(a=(2, 3))
    assert rig.consumers.state_name == "Stable"
    assert rig.consumers.epoch == before["epoch"]


async def test_sessions_and_the_rebalance_timeout_run_anew() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 2, "c": 1})
    owner = (await reconciling(rig))[2]
    for _ in range(4):
        await rig.pass_ms(19_000)
        await rig.restart()
        assert len(rig.consumers.members) == 4
        assert owner.beat(gives_up=False).assigned is not None
    await rig.pass_ms(20_001)
    assert owner.member_id not in rig.consumers.members
    await rig.pass_ms(SESSION - 20_001 - 2)
    assert len(rig.consumers.members) == 3
    await rig.pass_ms(3)
    assert rig.consumers.is_empty
    assert await log_tells(rig)


@pytest.mark.parametrize("error", [NotEnoughReplicas(), MessageTooLarge()], ids=["log", "records"])
async def test_what_could_not_be_written_is_not_so(error: NotEnoughReplicas | MessageTooLarge) -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 2, "c": 1})
    stable, _, owner, _ = await reconciling(rig)
    before, timers = durable(rig.consumers), rig.timers
    expected = (ErrorCode.coordinator_not_available, ErrorCode.unknown_server_error)
    rig.grow("b", 3)
    failing: list[Callable[[], Future[Any]]] = [
        stable.send,
        lambda: ConsumerClient(rig, "m9", regex="[ab]").send(),
        lambda: stable.send(member_epoch=-1),
        lambda: ConsumerClient(rig, "m9", "a", instance="i2").send(),
        lambda: owner.send(owned=rig.of(a=(0,))),
        lambda: ClassicConsumer(rig, "c1", "a", version=3).join(),
    ]
    for send in failing:
        rig.log.fail_with = error
        assert refused(send()) in expected
        rig.log.fail_with = None
        await rig.runtime.loaded()
        assert durable(rig.consumers) == before
        assert set(rig.timers) <= {*timers, f"session of {owner.member_id}"}
    assert stable.beat().assigned == rig.of(b=(0, 1, 2)), "that the topic grew is not forgotten"
    assert await log_tells(rig)


async def test_a_failed_first_join_leaves_no_group() -> None:
    rig = await ConsumerRig.having({"a": 4})
    rig.log.fail_with = MessageTooLarge()
    assert refused(ConsumerClient(rig, "m1", regex="a").send()) is ErrorCode.unknown_server_error
    assert rig.any_group is None
    assert rig.timers == []
    rig.log.fail_with = None
    assert ConsumerClient(rig, "m1", "a").beat().member_epoch == 2


def test_a_partition_stays_its_owners_when_compaction_took_away_how_it_got_it() -> None:
    group = ConsumerGroup("readers")
    topic = UUID(int=1)
    group.put_member(ConsumerMember("m1", epoch=1, assigned={topic: frozenset((0, 1))}))
    group.put_member(ConsumerMember("m2", epoch=2, assigned={topic: frozenset((1,))}))
    group.put_member(ConsumerMember("m1", epoch=3, assigned={topic: frozenset((0,))}))
    assert not group.is_free(topic, 1)
    group.remove_member("m2")
    assert group.is_free(topic, 1)
    assert not group.is_free(topic, 0)


async def test_answers_wait_until_what_they_tell_is_safe() -> None:
    rig = await ConsumerRig.having({"a": 4})
    rig.log.hold = True
    answer = ConsumerClient(rig, "m1", "a").send()
    assert not answer.done()
    rig.log.commit()
    assert answer.result().member_epoch == 2


async def test_a_removal_that_could_not_be_written_is_tried_again_unless_it_is_void_by_then() -> None:
    rig = await ConsumerRig.having({"a": 4})
    silent, lively = ConsumerClient(rig, "m1", "a"), ConsumerClient(rig, "m2", "b")
    silent.beat()
    lively.beat()
    await rig.pass_ms(SESSION - 1)
    rig.log.fail_with = MessageTooLarge()
    await rig.pass_ms(2)
    assert rig.consumers.members.keys() == {"m1", "m2"}
    assert rig.counts.expired_members == 0
    await rig.pass_ms(1_000)
    rig.log.fail_with = None
    lively.beat_briefly()
    await rig.pass_ms(501)
    assert (rig.consumers.members.keys(), rig.counts.expired_members) == ({"m2"}, 1)


async def test_who_gives_its_partitions_up_before_the_second_try_to_remove_it_stays() -> None:
    rig = await ConsumerRig.having({"a": 4})
    slow, other = ConsumerClient(rig, "m1", "a", rebalance_ms=20_000), ConsumerClient(rig, "m2", "a")
    slow.beat()
    other.beat()
    slow.beat(gives_up=False)
    rig.log.fail_with = MessageTooLarge()
    await rig.pass_ms(20_001)
    rig.log.fail_with = None
    slow.owned = rig.of(a=(0, 1))
    assert slow.beat().member_epoch == 3
    await rig.pass_ms(1_000)
    assert rig.consumers.members.keys() == {"m1", "m2"}
    await rig.pass_ms(SESSION)
    assert rig.consumers.is_empty
