"""Each rule about a share group, on a whole node in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic

from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, RELEASE, Shared
from tests.unit.broker.testkit.explain.findings import found

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config={**CONFIG, "group.share.partition.max.record.locks": "100"}) as rig:
        yield await Shared(rig).started()


async def test_a_member_without_a_share_session_does_not_fetch(shared: Shared) -> None:
    member = await shared.member()
    rules = await found(shared.rig, group=GROUP)
    assert "is assigned t-0 and does not fetch: it has no share session" in rules["has_no_share_session"]["text"]
    await member.fetch()
    assert "has_no_share_session" not in await found(shared.rig, group=GROUP)


async def test_rules_about_fetches_and_commits_are_for_other_groups(shared: Shared) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    rules = await found(shared.rig, group=GROUP)
    assert not {"is_not_fetched", "has_never_committed", "subscriptions_are_unknown"} & rules.keys()


async def test_who_holds_records_is_named_with_the_time_that_is_left(shared: Shared) -> None:
    for value in (b"a", b"b"):
        await shared.produce(value)
    first, second = await shared.member("m"), await shared.member("n")
    await first.fetch(records=1)
    rules = await found(shared.rig, group=GROUP)
    assert rules["records_are_locked"]["severity"] == "info", "there is more to get"
    await second.fetch(records=1)
    await shared.rig.clock.run(10_000)
    finding = (await found(shared.rig, group=GROUP))["records_are_locked"]
    assert finding["severity"] == "warning"
    assert "member n (" in finding["text"]
    assert "has acquired 1 record of t-0 (offset 1) for 20 s more" in finding["text"]


async def test_the_start_offset_waits_for_the_oldest_record(shared: Shared) -> None:
    for value in (b"a", b"b", b"c"):
        await shared.produce(value)
    member = await shared.member()
    await member.fetch()
    await member.acknowledge(1, 2, ACCEPT)
    text = (await found(shared.rig, group=GROUP))["start_offset_waits"]["text"]
    assert text.startswith("the start offset of t-0 is 0, though 2 records after it are done: offset 0 is acquired by")
    await member.acknowledge(0, 0, RELEASE)
    text = (await found(shared.rig, group=GROUP))["start_offset_waits"]["text"]
    assert text.endswith("offset 0 waits for a member that acquires it, and was delivered 1 times")


async def test_too_many_records_in_flight_stop_delivery(shared: Shared) -> None:
    await shared.produce(*[b"v"] * 100)
    await shared.produce(b"more")
    member = await shared.member()
    await member.fetch()
    finding = (await found(shared.rig, group=GROUP))["too_many_in_flight"]
    assert finding["severity"] == "problem"
    assert "100 records of t-0 are in flight, from the start offset 0 on" in finding["text"]
    await member.acknowledge(0, 99, ACCEPT)
    assert "too_many_in_flight" not in await found(shared.rig, group=GROUP)


async def test_records_with_their_last_delivery_before_them_are_named(shared: Shared) -> None:
    await shared.configure(**{"share.delivery.count.limit": "2", "share.auto.offset.reset": "earliest"})
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    await member.acknowledge(0, 0, RELEASE)
    text = (await found(shared.rig, group=GROUP))["is_given_up_soon"]["text"]
    assert text.startswith("1 record of t-0 (offset 0) have one of 2 deliveries left")
    assert text.endswith("are given up, with no dead letter queue")


async def test_a_group_that_is_through_says_so(shared: Shared) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    assert "all_is_done" not in await found(shared.rig, group=GROUP)
    await member.acknowledge(0, 0, ACCEPT)
    text = (await found(shared.rig, group=GROUP))["all_is_done"]["text"]
    assert text.startswith("group sharers is through with t-0: all records before 1 are done")


async def test_partitions_without_a_state_are_not_assigned_yet(shared: Shared) -> None:
    member = await shared.member()
    await member.fetch()
    assert "waits_for_share_partitions" not in await found(shared.rig, group=GROUP)
    grown = CreatePartitionsTopic(name="t", count=2, assignments=None)
    await shared.rig.connect().ask(
        "create_partitions", 3, topics=(grown,), timeout=timedelta(seconds=5), validate_only=False
    )
    assert "t-1" in (await found(shared.rig, group=GROUP))["waits_for_share_partitions"]["text"]
