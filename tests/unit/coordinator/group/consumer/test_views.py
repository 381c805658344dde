"""A consumer group as the admin APIs see it."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.consumer_group_describe.v1.response import Assignment, DescribedGroup

from broker.api.consumer_groups import describe
from broker.api.modern_groups import group_fields
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from protocol.errors import GroupIdNotFound
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig
from tests.unit.coordinator.group.rig import GROUP


def described(rig: ConsumerRig) -> DescribedGroup:
    def read(state: GroupCoordinatorShard) -> DescribedGroup:
        groups = state.groups.modern
        group = groups.get(ConsumerGroup, GROUP)
        return DescribedGroup(**group_fields(group, 0), **describe(None, groups, group)[0])

    return rig.runtime.read(0, read).result()


def summary(group: DescribedGroup) -> tuple[str, int, int, str]:
    return group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name


def topics(assignment: Assignment) -> list[tuple[UUID | None, str, tuple[int, ...]]]:
    return [(topic.topic_id, topic.topic_name, topic.partitions) for topic in assignment.topic_partitions]


async def test_is_described_with_what_members_have_and_what_they_are_to_have() -> None:
    rig = await ConsumerRig.having({"a": 4, "b": 1})
    first, second = ConsumerClient(rig, "m1", "a", "b"), ConsumerClient(rig, "m2", "a", assignor="range", instance="i2")
    first.beat()
    first.beat(rack_id="r1")
    assert summary(described(rig)) == ("Stable", 2, 2, "uniform")
    second.beat()
    first.beat()
    a, b = rig.topic_id("a"), rig.topic_id("b")
    view = described(rig)
    assert summary(view) == ("Reconciling", 3, 3, "range")
    one, other = view.members
    assert (one.member_id, one.rack_id, one.member_epoch) == ("m1", "r1", 2)
    assert topics(one.assignment) == [(a, "a", (0, 1, 2, 3)), (b, "b", (0,))], "two to be given up"
    assert topics(one.target_assignment) == [(a, "a", (2, 3)), (b, "b", (0,))]
    assert (other.instance_id, topics(other.assignment)) == ("i2", [])
    assert topics(other.target_assignment) == [(a, "a", (0, 1))]
    rig.drop("a")
    assert topics(described(rig).members[0].target_assignment) == [(b, "b", (0,))]
    first.leave()
    assert summary(described(rig))[:3] == ("Assigning", 4, 3)
    second.leave()
    assert summary(described(rig))[:3] == ("Empty", 5, 5)


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
        rig.shard.groups.modern.get(ConsumerGroup, "nobody")


async def test_a_classic_group_is_no_consumer_group() -> None:
    rig = await ConsumerRig.having({"a": 4})
    ClassicConsumer(rig, "c1", "a", version=3).join()
    await rig.pass_ms(5)
    with pytest.raises(GroupIdNotFound, match="Group readers is not a consumer group"):
        rig.shard.groups.modern.get(ConsumerGroup, GROUP)
    assert rig.shard.groups.classic_group(GROUP) is rig.group
