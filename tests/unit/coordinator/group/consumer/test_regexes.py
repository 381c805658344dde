"""Subscriptions by regular expression are matched with the topics in an operation of their own."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.consumer import regexes
from tests.unit.coordinator.group.consumer.clients import ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.steps import refused

REFRESH = 600_000


async def test_the_first_heartbeat_has_the_expression_matched_and_the_next_one_gets_the_topics() -> None:
    rig = await ConsumerRig.having({"abc": 2, "b": 1})
    member = ConsumerClient(rig, "m1", regex="a.*")
    answer = member.beat()
    assert (answer.member_epoch, answer.assigned) == (1, {})
    assert rig.epochs == (2, 1)
    assert rig.consumers.state_name == "Assigning"
    resolved = rig.consumers.resolved["a.*"]
    assert resolved == ({"abc"}, rig.topics.version, rig.clock.wall_ms())
    assert rig.consumers.is_subscribed_to_topic("abc")
    answer = member.beat_briefly()
    assert (answer.member_epoch, answer.assigned) == (2, rig.of(abc=(0, 1)))
    assert member.beat_briefly().assigned is None
    assert rig.epochs == (2, 2)
    assert await log_tells(rig)


async def test_new_topics_are_looked_for_after_ten_seconds_and_only_if_there_are_any() -> None:
    rig = await ConsumerRig.having({"a1": 1})
    member = ConsumerClient(rig, "m1", regex="a.*")
    member.beat()
    member.beat()
    await rig.pass_ms(5_000)
    rig.create("a2", 1)
    await rig.pass_ms(5_000)
    member.beat()
    assert rig.epochs == (2, 2)
    await rig.pass_ms(1)
    assert member.beat().member_epoch == 2
    assert rig.epochs == (3, 2)
    assert member.beat().assigned == rig.of(a1=(0,), a2=(0,))
    first = rig.consumers.resolved["a.*"]
    await rig.pass_ms(20_000)
    member.beat()
    assert rig.consumers.resolved["a.*"] == first, "nothing is new"
    rig.create("b", 1)
    member.beat()
    assert rig.consumers.resolved["a.*"].timestamp_ms == rig.clock.wall_ms()
    assert rig.epochs == (3, 3), "nothing that it matches"


async def test_all_expressions_of_a_group_are_matched_anew_after_the_refresh_interval() -> None:
    rig = await ConsumerRig.having({"a": 1}, session_timeout_ms=2 * REFRESH)
    member = ConsumerClient(rig, "m1", regex="a.*")
    member.beat()
    member.beat()
    before = rig.consumers.resolved
    rig.drop("a")
    member.beat()
    member.beat()
    await rig.pass_ms(REFRESH)
    member.beat()
    assert rig.consumers.resolved["a.*"].topics == {"a"}
    await rig.pass_ms(1)
    member.beat()
    assert rig.consumers.resolved["a.*"].topics == frozenset()
    assert before is rig.consumers.resolved
    assert rig.epochs == (4, 3)


async def test_the_last_subscriber_takes_the_expression_along() -> None:
    rig = await ConsumerRig.having({"a": 1, "b": 1})
    members = [ConsumerClient(rig, f"m{number}", regex="a") for number in (1, 2, 3)]
    for member in members:
        member.beat()
    first, second, third = members
    assert rig.consumers.subscribed_regexes == {"a": 3}
    await rig.pass_ms(10_001)
    first.regex = "b"
    first.beat()
    assert rig.consumers.resolved.keys() == {"a", "b"}
    second.leave()
    assert rig.consumers.resolved.keys() == {"a", "b"}
    third.regex = ""
    third.topics = ("b",)
    third.beat()
    assert rig.consumers.resolved.keys() == {"b"}
    assert rig.consumers.subscribed_topics == {"b"}
    first.leave()
    assert rig.consumers.resolved == {}
    third.beat()
    assert third.beat().assigned == rig.of(b=(0,))
    assert await log_tells(rig)


async def test_who_subscribes_to_an_expression_that_is_matched_already_causes_a_rebalance() -> None:
    rig = await ConsumerRig.having({"a": 2})
    first, second = ConsumerClient(rig, "m1", regex="a"), ConsumerClient(rig, "m2", regex="a")
    first.beat()
    first.beat()
    assert second.beat().member_epoch == 3
    for member in (first, first, second):
        member.beat()
    assert (first.owned, second.owned) == (rig.of(a=(0,)), rig.of(a=(1,)))


async def test_who_subscribes_both_ways_gets_both() -> None:
    rig = await ConsumerRig.having({"a": 1, "b": 1, "c": 1})
    member = ConsumerClient(rig, "m1", "b", regex="a")
    member.beat()
    assert member.beat().assigned == rig.of(a=(0,), b=(0,))
    assert not rig.consumers.is_subscribed_to_topic("c")


async def test_an_expression_that_is_none_is_refused_and_leaves_no_trace() -> None:
    rig = await ConsumerRig.having({"a": 1})
    member = ConsumerClient(rig, "m1", regex="(")
    assert refused(member.send()) is ErrorCode.invalid_regular_expression
    assert rig.any_group is None
    assert rig.log.records() == []


async def test_a_group_that_is_gone_when_its_expressions_are_matched_is_let_be() -> None:
    rig = await ConsumerRig.having({"a": 1})
    member = ConsumerClient(rig, "m1", regex="a")
    member.beat()
    await rig.restart()
    assert rig.consumers.resolved["a"].topics == {"a"}
    assert member.beat().assigned == rig.of(a=(0,))


@pytest.mark.parametrize("most_at_once", [regexes.MOST_AT_ONCE, 1], ids=["together", "one by one"])
def test_expressions_match_whole_names_and_one_that_is_not_valid_matches_none(
    most_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "MOST_AT_ONCE", most_at_once)
    found = regexes.resolve(["a.*", "b|abc", "(", ".*c", "B"], ["abc", "b", "bc", "a", "abcd"], 3, 7)
    assert {expression: sorted(one.topics) for expression, one in found.items()} == {
        "a.*": ["a", "abc", "abcd"],
        "b|abc": ["abc", "b"],
        "(": [],
        ".*c": ["abc", "bc"],
        "B": [],
    }
    assert {one[1:] for one in found.values()} == {(3, 7)}
    assert regexes.resolve(["("], ["a"], 3, 7)["("].topics == frozenset()
