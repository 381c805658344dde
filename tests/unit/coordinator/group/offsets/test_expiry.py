"""Offsets that outlive their retention, as KIP-211 counts it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.group.offsets import offsets as expiry
from protocol.coordinator_records.group_records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.build import Record, build_batch
from tests.unit.coordinator.group.offsets.rig import GROUP, OffsetRig, offset
from tests.unit.coordinator.group.rig import PREPARING, STABLE, Client
from tests.unit.coordinator.group.steps import stable

RETENTION = 100_000
CHECK = 10_000


async def expiring() -> OffsetRig:
    return await OffsetRig.started(offsets_retention_ms=RETENTION, offsets_retention_check_interval_ms=CHECK)


async def test_a_simple_groups_offsets_expire_one_by_one_and_the_group_with_the_last() -> None:
    rig = await expiring()
    rig.commit(offset(0, 1))
    await rig.pass_ms(50_000)
    rig.commit(offset(1, 1))
    await rig.pass_ms(49_999)
    assert set(rig.committed()) == {("topic", 0), ("topic", 1)}
    await rig.pass_ms(1)
    assert set(rig.committed()) == {("topic", 1)}
    assert rig.group_ids() == {GROUP}
    await rig.pass_ms(50_000)
    assert rig.committed() == {}
    assert rig.group_ids() == set()
    assert rig.counts.offset_expirations == 2


async def test_expiry_is_looked_for_at_the_check_interval_and_again_after_a_restart() -> None:
    rig = await expiring()
    await rig.pass_ms(1)
    rig.commit(offset(0, 1))
    await rig.pass_ms(RETENTION + CHECK - 2)
    assert set(rig.committed()) == {("topic", 0)}
    await rig.pass_ms(1)
    assert rig.committed() == {}
    rig.commit(offset(0, 1))
    await rig.restart()
    await rig.pass_ms(RETENTION + CHECK)
    assert rig.committed() == {}


async def test_offsets_retention_minutes_count_from_when_the_group_became_empty() -> None:
    rig = await expiring()
    member = Client(rig)
    await stable(rig, member)
    rig.commit(offset(0, 1), member_id=member.member_id, generation=member.generation)
    for _ in range(30):
        await rig.pass_ms(5_000)
        member.heartbeat()
    assert set(rig.committed()) == {("topic", 0)}
    member.leave()
    await rig.pass_ms(1)
    await rig.pass_ms(RETENTION - CHECK)
    assert set(rig.committed()) == {("topic", 0)}
    await rig.pass_ms(2 * CHECK)
    assert rig.committed() == {}
    assert rig.group_ids() == set()


async def test_in_a_stable_group_offsets_of_topics_no_longer_subscribed_expire() -> None:
    rig = await expiring()
    member = Client(rig)
    await stable(rig, member)
    who: dict[str, Any] = {"member_id": member.member_id, "generation": member.generation}
    rig.commit(offset(0, 1), offset(0, 1, topic="left"), **who)
    for _ in range(24):
        await rig.pass_ms(5_000)
        member.heartbeat()
    assert set(rig.committed()) == {("topic", 0)}
    assert rig.group_ids() == {GROUP}


async def test_an_offset_that_a_transaction_is_about_to_replace_stays() -> None:
    rig = await expiring()
    rig.commit(offset(0, 1), offset(1, 1))
    rig.commit_in_transaction(9, offset(0, 2))
    await rig.pass_ms(RETENTION + CHECK)
    assert set(rig.committed()) == {("topic", 0)}
    rig.end(9, committed=False)
    await rig.pass_ms(CHECK)
    assert rig.committed() == {}


async def test_a_group_whose_only_commits_are_pending_stays() -> None:
    rig = await expiring()
    rig.commit_in_transaction(9, offset(0, 2))
    await rig.pass_ms(2 * RETENTION)
    assert rig.group_ids() == {GROUP}
    rig.end(9, committed=False)
    await rig.pass_ms(CHECK)
    assert rig.group_ids() == set()


async def test_a_group_whose_pending_commits_were_deleted_goes_before_the_transaction_ends() -> None:
    rig = await expiring()
    rig.commit_in_transaction(9, offset(0, 2))
    rig.commit_in_transaction(9, offset(0, 3), group="other")
    rig.delete({"topic": [0]})
    await rig.pass_ms(CHECK)
    assert rig.group_ids() == {"other"}
    rig.commit_in_transaction(9, offset(0, 4))
    rig.end(9, committed=True)
    assert (rig.committed(), rig.committed("other")) == ({("topic", 0): 4}, {("topic", 0): 3})


async def test_nothing_expires_of_a_group_that_rebalances() -> None:
    rig = await expiring()
    member = Client(rig)
    await stable(rig, member)
    rig.commit(offset(0, 1, topic="left"), member_id=member.member_id, generation=member.generation)
    for _ in range(19):
        await rig.pass_ms(5_000)
        member.heartbeat()
    Client(rig).join()
    await rig.pass_ms(6_000)
    assert rig.group.state is PREPARING
    assert set(rig.committed()) == {("left", 0)}


async def test_a_group_with_members_and_no_commits_stays() -> None:
    rig = await expiring()
    member = Client(rig)
    await stable(rig, member)
    for _ in range(3):
        await rig.pass_ms(5_000)
        member.heartbeat()
    assert rig.group_ids() == {GROUP}
    assert rig.group.state is STABLE


async def test_more_offsets_than_a_batch_holds_expire_together() -> None:
    rig = await expiring()
    rig.commit(*(offset(partition, 1) for partition in range(50)))
    rig.log.max_batch_bytes = 300
    await rig.pass_ms(RETENTION + CHECK)
    assert rig.committed() == {}


async def test_a_flood_of_groups_expires_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "GROUPS_IN_A_TURN", 2)
    rig = await expiring()
    for number in range(5):
        rig.commit(offset(0, 1), group=f"group-{number}")
    await rig.pass_ms(RETENTION - 50)
    left = []
    for _ in range(100):
        await rig.pass_ms(1)
        left.append(len(rig.group_ids()))
    assert sorted(set(left)) == [0, 1, 3, 5]
    rig.commit(offset(0, 1))
    await rig.pass_ms(RETENTION + CHECK)
    assert rig.group_ids() == set(), "it is looked for no more"


async def test_an_old_commits_own_time_of_expiry_counts() -> None:
    rig = await expiring()
    rig.commit(offset(0, 1), retention_ms=2 * CHECK)
    rig.commit(offset(1, 1), retention_ms=10 * RETENTION)
    await rig.pass_ms(2 * CHECK - 1)
    assert set(rig.committed()) == {("topic", 0), ("topic", 1)}
    await rig.pass_ms(1)
    assert set(rig.committed()) == {("topic", 1)}
    await rig.pass_ms(2 * RETENTION)
    assert set(rig.committed()) == {("topic", 1)}


async def test_the_expiry_of_an_old_brokers_record_counts() -> None:
    rig = await expiring()
    now = rig.clock.wall_ms()
    value = OffsetCommitValue(1, -1, "", now, now + 15_000)
    assert value.expire_timestamp != NO_TIMESTAMP
    key = OffsetCommitKey(GROUP, "topic", 0)
    rig.log.append(build_batch([Record(0, now, OFFSET_COMMIT.encode_key(key), OFFSET_COMMIT.encode_value(value))]))
    await rig.restart()
    assert set(rig.committed()) == {("topic", 0)}
    await rig.pass_ms(20_000)
    assert rig.committed() == {}
