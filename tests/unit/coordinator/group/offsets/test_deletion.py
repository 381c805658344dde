"""OffsetDelete, DeleteGroups, and topics that go."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from protocol.errors import GroupIdNotFound, GroupNotEmpty
from tests.unit.coordinator.group.offsets.rig import GROUP, NONE, OffsetRig, offset
from tests.unit.coordinator.group.rig import Client
from tests.unit.coordinator.group.steps import refused, stable


async def test_deleted_offsets_are_gone_after_a_restart_too() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), offset(1, 6))
    codes = rig.delete({"topic": [0, 0, 2], "other": [0]})
    assert codes == dict.fromkeys([("topic", 0), ("topic", 2), ("other", 0)], NONE)
    assert rig.committed() == {("topic", 1): 6}
    assert [key.partition for key, value in rig.offset_records() if value is None] == [0]
    await rig.restart()
    assert rig.committed() == {("topic", 1): 6}


async def test_offsets_of_a_group_that_is_not_there() -> None:
    rig = await OffsetRig.started()
    future = rig.runtime.write(0, lambda state: state.offsets.delete(GROUP, {"topic": [0]}))
    assert refused(future) is GroupIdNotFound.code


async def test_group_subscribed_to_topic_keeps_the_offsets() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), offset(0, 6, topic="other"))
    await stable(rig, Client(rig))
    codes = rig.delete({"topic": [0], "other": [0]})
    assert codes == {("topic", 0): ErrorCode.group_subscribed_to_topic, ("other", 0): NONE}
    assert rig.committed() == {("topic", 0): 5}


async def test_a_group_is_deleted_with_its_offsets_if_it_is_empty() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), offset(1, 6))
    rig.commit(offset(0, 7), group="other")
    rig.commit_in_transaction(9, offset(4, 7))
    assert rig.delete_groups(GROUP, "nobody", GROUP) == {GROUP: NONE, "nobody": GroupIdNotFound.code}
    assert rig.group_ids() == {"other"}
    assert rig.committed() == {}
    rig.end(9, committed=True)
    assert rig.committed() == {}
    assert rig.counts.offset_deletions == 3
    await rig.restart()
    assert rig.group_ids() == {"other"}
    assert rig.committed("other") == {("topic", 0): 7}


async def test_non_empty_group_is_not_deleted() -> None:
    rig = await OffsetRig.started()
    await stable(rig, Client(rig))
    assert rig.delete_groups(GROUP) == {GROUP: GroupNotEmpty.code}
    assert rig.group_ids() == {GROUP}


async def test_a_topic_takes_its_offsets_along_pending_ones_too() -> None:
    rig = await OffsetRig.started()
    rig.commit(offset(0, 5), offset(0, 6, topic="other"))
    rig.commit_in_transaction(9, offset(1, 5), offset(1, 6, topic="other"), group="pending only")
    rig.topic_deleted("topic")
    rig.end(9, committed=True)
    assert rig.committed() == {("other", 0): 6}
    assert rig.committed("pending only") == {("other", 1): 6}


async def test_a_topics_offsets_may_take_more_than_one_batch() -> None:
    rig = await OffsetRig.started()
    for partition in range(20):
        rig.commit(offset(partition, 5))
    rig.log.max_batch_bytes = 300
    before = len(rig.log.written)
    rig.topic_deleted("topic")
    assert rig.committed() == {}
    assert len(rig.log.written) - before > 2


def deleted(rig: OffsetRig) -> list[tuple[str, str, int]]:
    return [(key.group, key.topic, key.partition) for key, value in rig.offset_records() if value is None]


async def test_offsets_of_topics_deleted_together_are_one_batch_partitions_ascending() -> None:
    rig = await OffsetRig.started()
    for group in ("s1", "s2"):
        rig.commit(
            *(offset(partition, 1, topic=topic) for topic in ("aa", "y") for partition in (15, 1, 7)), group=group
        )
    rig.commit_in_transaction(9, offset(3, 1, topic="y"), group="s2")
    before = len(rig.log.written)
    rig.topics_deleted("aa", "y")
    assert len(rig.log.written) == before + 1
    committed = [(group, topic, index) for group in ("s1", "s2") for topic in ("y", "aa") for index in (1, 7, 15)]
    assert sorted(deleted(rig)[:12]) == sorted(committed)
    assert [index for _, _, index in deleted(rig)] == [1, 7, 15] * 4 + [3]
