"""Heartbeats that are invalid by themselves, that are mere signs of life, and that fail in the coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from coordinator.group.consumer import heartbeat as target
from coordinator.group.consumer.assignors import GroupSpec, PartitionAssignorError
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.heartbeat import ConsumerHeartbeat, check_request, unchanged_member
from protocol.errors import KafkaError, UnknownServerError, UnsupportedAssignor
from tests.unit.coordinator.group.consumer.clients import ConsumerClient, sign_of_life
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, durable

JOINS = {
    "group_id": "readers",
    "member_id": "m1",
    "member_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": 1_000,
    "topics": ("a",),
    "regex": None,
    "assignor": None,
    "owned": {},
    "client_id": "client",
    "client_host": "/127.0.0.1",
    "names_itself": True,
}
INVALID = ErrorCode.invalid_request


def wrong(**changes: Any) -> tuple[ErrorCode, str] | None:
    fields: dict[str, Any] = {**JOINS, **changes}
    try:
        check_request(ConsumerHeartbeat(**fields))
    except KafkaError as error:
        return error.code, str(error)
    return None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"member_id": "", "names_itself": False, "member_epoch": 1}, "MemberId can't be empty."),
        ({"member_id": "", "names_itself": False, "member_epoch": -1}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topics": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_is_refused(changes: dict[str, Any], why: str) -> None:
    assert wrong(**changes) == (INVALID, why)


def test_lets_pass_what_a_member_sends() -> None:
    assert wrong() is None
    assert wrong(member_id="", names_itself=False) is None
    assert wrong(topics=None, regex="a") is None
    assert wrong(member_epoch=3, topics=None, owned=None, rebalance_timeout_ms=-1) is None
    assert wrong(member_epoch=-2, instance_id="i1") is None
    assert wrong(assignor="range") is None


async def test_an_assignor_that_is_not_configured_is_refused() -> None:
    rig = await ConsumerRig.having({"a": 1})
    with pytest.raises(UnsupportedAssignor, match="Supported assignors: uniform, range"):
        ConsumerClient(rig, "m1", "a", assignor="other").beat()


async def test_who_does_not_name_itself_is_named() -> None:
    rig = await ConsumerRig.having({"a": 1})
    answer = ConsumerClient(rig, "", "a").beat()
    assert answer.member_id in rig.consumers.members
    assert answer.member_id != ""


async def test_a_heartbeat_is_a_mere_sign_of_life_while_nothing_is_to_be_done() -> None:
    rig = await ConsumerRig.having({"a": 2})
    one, other = ConsumerClient(rig, "m1", "a"), ConsumerClient(rig, "m2", "a")

    def is_settled(**changes: Any) -> bool:
        request = replace(sign_of_life("m1", one.epoch), **changes)
        group = rig.shard.groups.modern.find(ConsumerGroup, request.group_id)
        return group is not None and unchanged_member(group, request) is rig.member(one)

    one.beat()
    one.beat_briefly()  # a new group is looked at twice
    assert is_settled()
    requests: tuple[dict[str, Any], ...] = (
        {"owned": {}},
        {"rack_id": "r"},
        {"instance_id": "i"},
        {"topics": ("a", "b")},
        {"regex": "a"},
        {"assignor": "range"},
        {"rebalance_timeout_ms": 1},
        {"client_id": "another"},
        {"client_host": "/127.0.0.2"},
        {"member_epoch": one.epoch + 1},
        {"member_id": "nobody"},
        {"group_id": "another"},
    )
    for changes in requests:
        assert not is_settled(**changes), changes
    rig.grow("a", 4)
    assert not is_settled()
    one.beat_briefly()
    one.beat_briefly()
    assert is_settled()
    other.beat()
    assert not is_settled()
    one.beat()
    one.beat()
    other.beat()
    assert is_settled()
    ConsumerClient(rig, "m3", regex="b").beat()
    for client in (one, one, other, other):
        client.beat()
    assert rig.member(one).is_reconciled_to(rig.consumers.assignment_epoch)
    assert not is_settled()  # a regular expression may be due


async def test_when_the_assignor_fails_everything_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await ConsumerRig.having({"a": 1})
    ConsumerClient(rig, "m1", "a").beat()
    before = durable(rig.consumers)

    def fails(_: GroupSpec) -> Any:
        raise PartitionAssignorError("no way")

    monkeypatch.setattr(target, "ASSIGNORS", {"range": fails})
    with pytest.raises(UnknownServerError) as failed:
        ConsumerClient(rig, "m0", "a", assignor="range").beat()
    assert failed.value.explicit_message is None
    assert durable(rig.consumers) == before
