"""What `odradek explain -b` finds of any Kafka, by rule: each from what an admin client can know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from odradek.explain_rules import (
    GROUP_RULES,
    TOPIC_RULES,
    TRANSACTION_RULES,
    SeenGroup,
    SeenPartition,
    SeenTopic,
    SeenTransaction,
    ask,
)
from odradek.report import Explanation, Finding

KEY, OTHER = ("t", 0), ("t", 1)


def partition(number: int = 0, **more: Any) -> SeenPartition:
    """A partition of one replica with the offsets 0 to 10."""
    known: dict[str, Any] = {"leader": 1, "replicas": [1], "isr": [1], "start": 0, "stable": 10, "end": 10}
    return SeenPartition("t", number, **(known | more))


def group(*partitions: SeenPartition, **more: Any) -> SeenGroup:
    """A stable group of one member, which has all partitions."""
    known: dict[str, Any] = {
        "kind": "consumer",
        "state": "Stable",
        "members": {"m": [(one.topic, one.number) for one in partitions]},
        "committed": {(one.topic, one.number): 10 for one in partitions},
    }
    return SeenGroup("g", partitions={(one.topic, one.number): one for one in partitions}, **(known | more))


def found(findings: Iterable[Finding]) -> Mapping[str, Finding]:
    return {one.rule: one for one in findings}


def test_a_group_that_is_not_there_has_a_near_name() -> None:
    missing = SeenGroup("reader", "", "", {}, {}, {}, ["readers", "x"])
    one = found(ask(GROUP_RULES, missing))["group_does_not_exist"]
    assert (one.severity, "Did you mean readers?" in one.advice) == ("problem", True)


def test_a_group_that_has_read_everything() -> None:
    assert [*found(ask(GROUP_RULES, group(partition())))] == ["nothing_new"]


@pytest.mark.parametrize("state", ["PreparingRebalance", "PREPARING_REBALANCE", "CompletingRebalance", "Reconciling"])
def test_a_group_that_rebalances(state: str) -> None:
    assert found(ask(GROUP_RULES, group(partition(), state=state)))["is_rebalancing"].severity == "problem"


@pytest.mark.parametrize(
    ("it", "rule", "words"),
    [
        (group(partition(), state="Empty", members={}), "group_is_empty", "has no members"),
        (group(partition(leader=None, start=None, stable=None, end=None)), "partition_is_offline", "t-0"),
        (group(partition(), committed={KEY: 11}), "committed_out_of_range", "there are no such records yet"),
        (group(partition(start=5), committed={KEY: 4}), "committed_out_of_range", "records before that were deleted"),
        (group(partition(), partition(1), members={"m": [KEY]}), "partitions_without_owner", "owns t-1"),
        (group(partition(), members={"m": [KEY], "idle": []}), "members_without_partitions", "idle of group g has no"),
        (group(partition(), committed={KEY: 7}), "is_behind", "3 records of t-0"),
        (group(partition(), committed={}), "has_never_committed", "t-0"),
        (group(partition(), committed={KEY: 10, ("gone", 0): 1}), "topics_do_not_exist", "gone"),
        (group(partition(stable=4, holder="transaction x")), "held_by_transaction", "held at 4 by transaction x"),
    ],
)
def test_what_keeps_a_group_from_reading(it: SeenGroup, rule: str, words: str) -> None:
    rules = found(ask(GROUP_RULES, it))
    assert words in rules[rule].text
    assert rules[rule].advice
    assert rule not in found(ask(GROUP_RULES, group(partition())))


def test_the_offsets_of_a_share_group_are_not_committed_ones() -> None:
    share = group(partition(), kind="share", committed={}, members={"m": [KEY], "n": [KEY]})
    assert not found(ask(GROUP_RULES, share))


@pytest.mark.parametrize(
    ("it", "rule", "words"),
    [
        (SeenTopic("ordres", [], existing=["orders"]), "topic_does_not_exist", "ordres does not exist"),
        (SeenTopic("t", [partition(leader=None, isr=[])], 2), "partition_is_offline", "no leader is online"),
        (SeenTopic("t", [partition(replicas=[1, 2])], 2), "not_enough_replicas", "t-0 (1)"),
        (SeenTopic("t", [partition(replicas=[1, 2])], 1), "is_under_replicated", "t-0"),
        (SeenTopic("t", [partition(stable=0, end=0), partition(1, stable=0, end=0)]), "has_no_records", "2 partitions"),
        (SeenTopic("t", [partition(start=3)]), "records_were_deleted", "t-0 starts at 3"),
        (SeenTopic("t", [partition(stable=4)]), "held_by_transaction", "held at 4 by an open transaction"),
    ],
)
def test_what_keeps_a_topic_from_being_read_or_written(it: SeenTopic, rule: str, words: str) -> None:
    rules = found(ask(TOPIC_RULES, it))
    assert words in rules[rule].text
    assert rules[rule].advice
    assert [*found(ask(TOPIC_RULES, SeenTopic("t", [partition()], 1)))] == ["has_records"]


def test_a_partition_without_a_leader_is_not_also_short_of_replicas() -> None:
    offline = SeenTopic("t", [partition(leader=None, isr=[], start=None, stable=None, end=None)], 2)
    assert [*found(ask(TOPIC_RULES, offline))] == ["partition_is_offline"]


@pytest.mark.parametrize(
    ("it", "rule", "words"),
    [
        (SeenTransaction("pa", "", existing=["pay"]), "does_not_exist", "no transactional id pa"),
        (SeenTransaction("pay", "Ongoing", 28, 60, ["t-1", "t-0"]), "is_open", "Ongoing in t-0, t-1, open for 28 s"),
        (SeenTransaction("pay", "CompleteCommit"), "is_not_open", "CompleteCommit"),
    ],
)
def test_transactions(it: SeenTransaction, rule: str, words: str) -> None:
    assert words in found(ask(TRANSACTION_RULES, it))[rule].text


def test_both_ways_print_the_same() -> None:
    one = Finding("problem", "rule", "it is so", "do this")
    told = Explanation.of("group", "g", [one])
    answer = {
        "subject": "group",
        "name": "g",
        "findings": [{"severity": "problem", "rule": "rule", "text": "it is so", "advice": "do this"}],
    }
    assert str(told) == str(Explanation(answer)) == "group g\n!! it is so\n   -> do this"
    assert told.as_json == Explanation(answer).as_json == answer["findings"]
