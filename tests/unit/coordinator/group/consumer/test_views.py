"""A consumer group as the admin APIs see it."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.describe import DescribedConsumerGroup, TopicAssignment, describe
from protocol.errors import GroupIdNotFound
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig
from tests.unit.coordinator.group.rig import GROUP


def described(rig: ConsumerRig) -> DescribedConsumerGroup:
    return rig.runtime.read(0, lambda state: describe(state.groups.consumer, state.groups.consumer.get(GROUP))).result()


async def test_is_described_with_what_members_have_and_what_they_are_to_have() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    first, second = ConsumerClient(rig, "m1", "a", "b"), ConsumerClient(rig, "m2", "a", assignor="range", instance="i2")
    first.beat()
    first.beat(rack_id="r1")
    assert described(rig)[:4] == ("Stable", 2, 2, "uniform")
    second.beat()
    first.beat()
    a, b = rig.topic_id("a"), rig.topic_id("b")
    view = described(rig)
    assert view[:4] == ("Reconciling", 3, 3, "range")
    one, other = view.members
    assert (one.member.member_id, one.member.rack_id, one.member.epoch) == ("m1", "r1", 2)
    assert one.assigned == [TopicAssignment(a, "a", [0, 1, 2, 3]), TopicAssignment(b, "b", [0])], "two to be given up"
    assert one.target == [TopicAssignment(a, "a", [2, 3]), TopicAssignment(b, "b", [0])]
    assert (other.member.instance_id, other.assigned) == ("i2", [])
    assert other.target == [TopicAssignment(a, "a", [0, 1])]
    rig.drop("a")
    assert described(rig).members[0].target == [TopicAssignment(b, "b", [0])]
    first.leave()
    assert described(rig)[:3] == ("Assigning", 4, 3)
    second.leave()
    assert described(rig)[:3] == ("Empty", 5, 5)


async def test_is_listed_beside_classic_groups_and_is_none() -> None:
    rig = await ConsumerRig.having({"a": 4})
    ConsumerClient(rig, "m1", "a").beat()
    ConsumerClient(rig, "m1", "a").send(group_id="other")
    (group, other) = rig.shard.groups.all()
    assert (group.group_id, group.state_name, group.protocol_type, other.group_id) == (
        "readers",
        "Stable",
        "consumer",
        "other",
    )
    with pytest.raises(GroupIdNotFound, match="Group readers is not a classic group"):
        rig.shard.groups.classic_group(GROUP)
    with pytest.raises(GroupIdNotFound, match="Group nobody not found"):
        rig.shard.groups.classic_group("nobody")
    with pytest.raises(GroupIdNotFound, match="Group nobody not found"):
        rig.shard.groups.consumer.get("nobody")


async def test_a_classic_group_is_no_consumer_group() -> None:
    rig = await ConsumerRig.having({"a": 4})
    ClassicConsumer(rig, "c1", "a", version=3).join()
    await rig.pass_ms(5)
    with pytest.raises(GroupIdNotFound, match="Group readers is not a consumer group"):
        rig.shard.groups.consumer.get(GROUP)
    assert rig.shard.groups.classic_group(GROUP) is rig.group
