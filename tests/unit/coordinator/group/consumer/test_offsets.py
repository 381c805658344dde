"""Offsets of consumer groups, and the end of such a group."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, ProducerEpoch
from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_PARTITION_METADATA,
    ConsumerGroupPartitionMetadataValue,
)
from protocol.coordinator_records.record_schema import GroupKey
from protocol.errors import IllegalGeneration, InvalidRequest, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.offsets.rig import offset
from tests.unit.coordinator.group.rig import GROUP
from tests.unit.coordinator.group.steps import answer_of, refused

NONE = ErrorCode.none
RETENTION, CHECK = 100_000, 10_000
EXPIRING = {"offsets_retention_ms": RETENTION, "offsets_retention_check_interval_ms": CHECK}


async def running(**classic: int) -> tuple[ConsumerRig, ConsumerClient, ClassicConsumer]:
    """A group with a member of each protocol, both at epoch 3."""
    rig = await ConsumerRig.having({"a": 4, "b": 1}, classic)
    modern, old = ConsumerClient(rig, "m1", "a"), ClassicConsumer(rig, "c1", "a", session_ms=10_000)
    modern.beat()
    old.rejoins()
    modern.beat()
    modern.beat()
    old.rejoins()
    return rig, modern, old


async def test_members_commit_and_fetch_with_their_epoch() -> None:
    rig, _, old = await running()
    old_id = old.member_id

    def commit(**changes: Any) -> type:
        return type(rig.ask_commit(offset(0, 1, "a"), **changes).exception())

    def fetch(member_id: str | None, epoch: int) -> type:
        fetched = rig.runtime.read(0, lambda state: state.offsets.fetch(GROUP, None, False, member_id, epoch))
        return type(fetched.exception())

    nothing = type(None)
    assert commit(member_id="m1", generation=3) is nothing
    assert commit(member_id="m1", generation=2) is StaleMemberEpoch
    assert commit(member_id="m1", generation=3, knows_member_epochs=False) is UnsupportedVersion
    assert commit(member_id=old_id, generation=3, knows_member_epochs=False) is nothing
    assert commit(member_id=old_id, generation=2) is IllegalGeneration
    assert commit(member_id="m9", generation=3) is UnknownMemberId
    assert commit() is UnknownMemberId, "an administrator, while there are members"
    assert fetch("m1", 3) is fetch(None, -1) is nothing
    assert fetch("m1", 4) is StaleMemberEpoch
    assert fetch(old_id, 4) is IllegalGeneration
    assert fetch("m9", 2) is UnknownMemberId
    assert fetch(None, 0) is InvalidRequest
    rig.commit_in_transaction(1, offset(1, 1, "a"))
    rig.end(1, committed=True)
    in_transaction = {"member_id": "m1", "generation": 2, "transaction": ProducerEpoch(1, 0)}
    assert commit(**in_transaction) is StaleMemberEpoch
    assert commit(**in_transaction, knows_member_epochs=False) is IllegalGeneration
    assert rig.committed() == {("a", 0): 1, ("a", 1): 1}


async def test_anyone_commits_to_an_empty_group() -> None:
    rig, modern, old = await running()
    old.leave()
    modern.leave()
    assert rig.commit(offset(0, 1, "a")) == [NONE]
    assert refused(rig.ask_commit(offset(0, 1, "a"), member_id="m1", generation=3)) is ErrorCode.unknown_member_id
    assert rig.group_types() == {GROUP: "consumer"}


async def test_only_offsets_of_topics_that_nobody_subscribes_to_expire_or_are_deleted() -> None:
    rig, modern, old = await running(**EXPIRING)
    rig.commit(offset(0, 1, "a"), offset(0, 1, "b"), member_id="m1", generation=3)
    for _ in range(RETENTION // CHECK):
        await rig.pass_ms(CHECK - 100)
        answer_of(old.heartbeat())
        modern.beat_briefly()
    assert rig.committed() == {("a", 0): 1, ("b", 0): 1}
    await rig.pass_ms(2_000)
    assert rig.committed() == {("a", 0): 1}
    rig.commit(offset(0, 1, "b"), member_id="m1", generation=3)
    codes = rig.delete({"a": [0], "b": [0]})
    assert codes == {("a", 0): ErrorCode.group_subscribed_to_topic, ("b", 0): NONE}
    rig.drop("a")
    assert rig.committed() == {}


async def test_an_empty_group_goes_with_its_last_offset() -> None:
    rig, modern, old = await running(**EXPIRING)
    rig.commit(offset(0, 1, "a"), member_id="m1", generation=3)
    old.leave()
    modern.leave()
    await rig.pass_ms(RETENTION - 1)
    assert rig.group_types() == {GROUP: "consumer"}
    await rig.pass_ms(CHECK + 1)
    assert (rig.group_types(), rig.committed()) == ({}, {})
    assert rig.compacted() == []
    assert await log_tells(rig)


async def test_a_deleted_group_leaves_nothing_in_the_log() -> None:
    rig, modern, old = await running()
    regex = ConsumerClient(rig, "m2", regex="a|b", instance="i2")
    regex.beat()
    rig.commit(offset(0, 1, "a"), member_id="m1", generation=3)
    assert rig.delete_groups(GROUP, "other") == {
        GROUP: ErrorCode.non_empty_group,
        "other": ErrorCode.group_id_not_found,
    }
    old.leave()
    modern.leave()
    regex.leave(for_a_while=True)
    assert rig.delete_groups(GROUP) == {GROUP: ErrorCode.non_empty_group}
    await rig.pass_ms(45_001)
    left_by_kafka_4_0(rig)
    assert rig.consumers.has_subscription_metadata
    assert rig.delete_groups(GROUP) == {GROUP: NONE}
    assert rig.any_group is None
    assert rig.compacted() == []
    assert await log_tells(rig)
    await rig.restart()
    assert rig.group_ids() == set()
    assert modern.beat().member_epoch == 2


async def test_what_kafka_4_0_recorded_of_the_topics_is_removed_at_the_next_look_at_them() -> None:
    rig = await ConsumerRig.having({"a": 4})
    member = ConsumerClient(rig, "m1", "a")
    member.beat()
    member.beat()
    left_by_kafka_4_0(rig)
    member.beat()
    assert rig.consumers.has_subscription_metadata
    await rig.restart()
    assert rig.consumers.has_subscription_metadata
    member.beat()
    assert not rig.consumers.has_subscription_metadata
    assert rig.epochs == (2, 2)
    assert await log_tells(rig)


async def test_tombstones_of_a_group_that_is_not_there_make_none() -> None:
    rig = await ConsumerRig.having({})
    absent = ConsumerGroup(GROUP)
    gone = [*absent.member_tombstones("m1"), absent.regex_record("a", None)]
    rig.runtime.write(0, lambda _: Outcome([*gone, absent.record(CONSUMER_GROUP_PARTITION_METADATA, None)])).result()
    assert rig.any_group is None


def left_by_kafka_4_0(rig: ConsumerRig) -> None:
    left = CoordinatorRecord(
        CONSUMER_GROUP_PARTITION_METADATA,
        GroupKey(GROUP),
        ConsumerGroupPartitionMetadataValue(()),
    )
    rig.runtime.write(0, lambda _: Outcome((left,))).result()
