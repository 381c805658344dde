"""Rare things that consumer groups must live through."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import GroupState
from coordinator.group.classic.members import MemberIdentity
from coordinator.group.consumer import regexes
from coordinator.group.consumer.group import ResolvedRegex
from coordinator.group.consumer.regexes import MOST_AT_ONCE, resolve
from coordinator.runtime.outcome import Outcome
from protocol.errors import MessageTooLarge
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells


async def test_a_member_may_join_again_with_an_instance_id_whatever_its_epoch() -> None:
    rig = await ConsumerRig.having({"a": 2, "b": 2})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    for topics in (("a", "b"), ("b", "a", "c")):
        member.topics = topics
        member.beat()
    assert (member.epoch, rig.member(member).previous_epoch) == (4, 3)
    for instance in ("i1", "i2"):
        member.instance = instance
        answer = member.beat(member_epoch=0, owned={})
        assert (answer.member_epoch, answer.assigned) == (4, rig.of(a=(0, 1), b=(0, 1)))
        assert rig.member(member).instance_id == instance


async def test_a_classic_group_that_everybody_left_before_its_first_rebalance_goes_over() -> None:
    rig = ConsumerRig(initial_rebalance_delay_ms=3_000)
    rig.topics.create("a", 2)
    await rig.restart()
    classic = ClassicConsumer(rig, "c", "a", instance="i")
    classic.join()
    rig.leave(MemberIdentity("", "i"))
    assert (rig.group.state, len(rig.group.members)) == (GroupState.PREPARING_REBALANCE, 0)
    answer = ConsumerClient(rig, "m1", "a").beat()
    assert (answer.member_epoch, answer.assigned) == (1, rig.of(a=(0, 1)))
    await rig.pass_ms(3_000)
    assert rig.epochs == (1, 1)
    assert await log_tells(rig)


async def test_an_expression_in_the_log_that_is_not_valid_matches_nothing_and_the_others_are_matched() -> None:
    rig = await ConsumerRig.having({"a": 1, "b": 1})
    first, second = ConsumerClient(rig, "m1", regex="a+"), ConsumerClient(rig, "m2", regex="b+")
    for member in (first, first, second, second, first):
        member.beat()
    foreign = rig.member(second)._replace(regex="b(?!x)")
    rig.runtime.write(0, lambda _: Outcome([rig.consumers.member_record(foreign)])).result()
    second.regex = None
    await rig.pass_ms(10_001)
    rig.create("aa", 1)
    for member in (first, first):
        member.beat()
    assert first.owned == rig.of(a=(0,), aa=(0,))
    assert rig.consumers.resolved["b(?!x)"].topics == frozenset()


@pytest.mark.parametrize("most", [0, MOST_AT_ONCE])
def test_expressions_match_whole_names_one_by_one_as_all_at_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "MOST_AT_ONCE", most)
    names = ["a", "ab", "b", "A", "a.b", "aXb", "^a$"]
    found = resolve(["a", "a.*", "a|ab", "(?i)a", r"a\.b", r"\Aa\z", "^a$", "(?!a)", ".*b"], names, 7, 9)
    assert {one: "".join(f"{name} " for name in names if name in match.topics) for one, match in found.items()} == {
        "a": "a ",
        "a.*": "a ab a.b aXb ",
        "a|ab": "a ab ",
        "(?i)a": "a A ",
        r"a\.b": "a.b ",
        r"\Aa\z": "a ",
        "^a$": "a ",
        "(?!a)": "",
        ".*b": "ab b a.b aXb ",
    }
    assert {match[1:] for match in found.values()} == {(7, 9)}
    assert resolve(["("], names, 7, 9) == {"(": ResolvedRegex(frozenset(), 7, 9)}


async def test_a_late_member_that_cannot_be_removed_may_join_after_all() -> None:
    rig = await ConsumerRig.having({"a": 2}, session_timeout_ms=300_000)
    first = ConsumerClient(rig, "m1", "a")
    first.beat()
    classic = ClassicConsumer(rig, "c", "a", session_ms=200_000, rebalance_ms=10_000)
    classic.rejoins()
    ConsumerClient(rig, "m2", "a").beat()
    assert classic.heartbeat().result() is ErrorCode.rebalance_in_progress
    rig.log.fail_with = MessageTooLarge()
    await rig.pass_ms(10_100)
    rig.log.fail_with = None
    classic.rejoins()
    await rig.pass_ms(150_000)
    assert classic.member_id in rig.consumers.members
