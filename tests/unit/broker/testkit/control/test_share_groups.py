"""Share groups through the control interface: lag, share sessions, what is delivered, and locks that end on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup
from kio.schema.errors import ErrorCode

from broker.testkit.control.endpoint import TIMED_OUT, ControlError
from tests.doubles.clock import settle
from tests.unit.broker.members import CONFIG as GROUPS_CONFIG
from tests.unit.broker.members import ClassicMember
from tests.unit.broker.rig import Rig
from tests.unit.broker.scraping import samples
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, RELEASE, Shared, acquired
from tests.unit.broker.testkit.control.asking import begin, control, keep_journal
from tests.unit.broker.wire import batch, produce

LIMIT = 5


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started()


async def lag_of(shared: Shared) -> Any:
    return await control(shared.rig, "GET", f"/groups/{GROUP}/lag")


async def told_by_kafkas_request(shared: Shared) -> list[tuple[int, int]]:
    """Start offset and lag of each partition, as `kafka-share-groups.sh --describe` shows them."""
    groups = (DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None),)
    answer = await shared.rig.connect().ask("describe_share_group_offsets", 1, groups=groups)
    return [(one.start_offset, one.lag) for topic in answer.groups[0].topics for one in topic.partitions]


async def waited(shared: Shared, **given: Any) -> Any:
    return await control(shared.rig, "POST", f"/groups/{GROUP}/wait", timeout=0, **given)


# -- lag


async def test_lag_of_a_share_group_is_that_of_describe_share_group_offsets(shared: Shared) -> None:
    member = await shared.member()
    for values in (b"a", b"b", b"c"):
        await shared.produce(values)
    assert acquired(await member.fetch()) == [(0, 2, 1)]
    for first, last, kind, lag in ((0, 0, ACCEPT, 2), (2, 2, RELEASE, 2), (1, 1, ACCEPT, 1)):
        assert await member.acknowledge(first, last, kind) is ErrorCode.none
        told = await lag_of(shared)
        assert told["total"] == lag
        assert [(one["start_offset"], one["lag"]) for one in told["partitions"]] == await told_by_kafkas_request(shared)
    assert acquired(await member.fetch()) == [(2, 2, 2)]
    await member.acknowledge(2, 2, ACCEPT)
    assert (await waited(shared, lag=0, members=1))["lag"] == 0
    await member.acknowledge(2, 2, ACCEPT, final=True)
    await member.leave()
    await shared.produce(b"d", b"e")
    assert (await lag_of(shared))["total"] == 2
    assert (await waited(shared, lag=2))["state"] == "Empty"
    (told,) = await told_by_kafkas_request(shared)
    assert told[1] == 2
    keep_journal(shared.rig)
    (group,) = (await control(shared.rig, "GET", "/report"))["groups"]
    assert group["lag"]["total"] == 2


async def test_lag_of_a_share_group_is_known_once_it_has_begun_to_read(shared: Shared) -> None:
    """Kafka tells it with the first state that is written; the leader knows it once it has loaded the partition."""
    await shared.produce(b"a", b"b")
    member = await shared.member()
    (told,) = (await lag_of(shared))["partitions"]
    assert (told["start_offset"], told["lag"], told["unknown"]) == (
        None,
        None,
        "the share group has not begun to read it",
    )
    with pytest.raises(ControlError, match="t-0: the share group has not begun to read it") as caught:
        await waited(shared, lag=9)
    assert caught.value.status == TIMED_OUT
    await member.fetch()
    assert (await lag_of(shared))["total"] == 2


async def test_a_partition_without_records_is_no_lag_of_a_share_group() -> None:
    async with Rig(config=CONFIG) as rig:
        shared = await Shared(rig).started(partitions=3)
        member = await shared.member()
        assert (await waited(shared, lag=0))["lag"] == 0
        await shared.produce(b"a")
        await member.fetch()
        await member.acknowledge(0, 0, ACCEPT)
        assert (await waited(shared, lag=0))["lag"] == 0


async def test_a_wait_for_the_lag_of_a_share_group_ends_with_the_acknowledgement(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a")
    await member.fetch()
    waiting = await begin(shared.rig, "POST", f"/groups/{GROUP}/wait", lag=0)
    assert not waiting.done()
    await member.acknowledge(0, 0, ACCEPT)
    await settle()
    assert waiting.result()["lag"] == 0


async def test_a_share_group_that_begins_at_the_end_has_no_lag_as_soon_as_it_reads(shared: Shared) -> None:
    await shared.configure(**{"share.auto.offset.reset": "latest"})
    await shared.produce(b"a")
    member = await shared.member()
    waiting = await begin(shared.rig, "POST", f"/groups/{GROUP}/wait", lag=0)
    assert not waiting.done()
    await member.fetch()
    await settle()
    assert waiting.result()["lag"] == 0


# -- share sessions and deliveries


async def test_a_wait_for_share_sessions_ends_when_a_member_fetches(shared: Shared) -> None:
    member = await shared.member()
    with pytest.raises(ControlError, match=r"for 1 share session: .*; 0 share sessions here"):
        await waited(shared, share_sessions=1)
    waiting = await begin(shared.rig, "POST", f"/groups/{GROUP}/wait", share_sessions=1)
    await member.fetch()
    await settle()
    assert waiting.done()
    waiting = await begin(shared.rig, "POST", f"/groups/{GROUP}/wait", share_sessions=0)
    assert not waiting.done()
    member.hang_up()
    await settle()
    assert waiting.done()


async def test_deliveries_tell_who_has_acquired_what_and_until_when(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a", b"b", b"c")
    await member.fetch()
    await shared.rig.clock.run(4_000)
    await member.acknowledge(1, 1, RELEASE)
    told = await control(shared.rig, "GET", f"/groups/{GROUP}/deliveries")
    acquired_by = {"state": "ACQUIRED", "delivery_count": 1, "member": "m", "lock_ends_in": 26.0}
    assert told == {
        "group": GROUP,
        "share_sessions": ["m"],
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "start_offset": 0,
                "end": 3,
                "in_flight": [
                    {"first_offset": 0, "last_offset": 0, **acquired_by},
                    {
                        "first_offset": 1,
                        "last_offset": 1,
                        "state": "AVAILABLE",
                        "delivery_count": 1,
                        "member": None,
                        "lock_ends_in": None,
                    },
                    {"first_offset": 2, "last_offset": 2, **acquired_by},
                ],
            }
        ],
    }


@pytest.mark.parametrize("action", ["release", "expire_locks"])
async def test_acquired_records_are_given_back_on_demand(shared: Shared, action: str) -> None:
    first, second = await shared.member("m"), await shared.member("n")
    await shared.produce(b"a", b"b", b"c")
    assert acquired(await first.fetch()) == [(0, 2, 1)]
    path = f"/groups/{GROUP}/{action}"
    assert await control(shared.rig, "POST", path, topic="t", partition=0, offset=1) == {"released": 1}
    assert acquired(await second.fetch()) == [(1, 1, 2)]
    assert await control(shared.rig, "POST", path, member="m") == {"released": 2}
    assert await control(shared.rig, "POST", path, topic="other") == {"released": 0}
    assert await first.acknowledge(0, 0, ACCEPT) is ErrorCode.invalid_record_state
    assert acquired(await second.fetch()) == [(0, 0, 2), (2, 2, 2)]
    assert await control(shared.rig, "POST", path) == {"released": 3}


async def test_a_record_that_is_given_back_too_often_is_given_up(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a")
    for _ in range(LIMIT):
        await member.fetch()
        assert await control(shared.rig, "POST", f"/groups/{GROUP}/expire_locks") == {"released": 1}
    told = await control(shared.rig, "GET", f"/groups/{GROUP}/deliveries")
    assert [(one["start_offset"], one["in_flight"]) for one in told["partitions"]] == [(1, [])]


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        ({"member": "x"}, 404, r"has no such member.*: m \(client"),
        ({"partition": 0}, 400, "topic is missing"),
        ({"topic": "t", "offset": 0}, 400, "partition is missing"),
    ],
)
async def test_what_cannot_be_released_is_told(shared: Shared, given: dict[str, Any], status: int, text: str) -> None:
    await shared.member()
    with pytest.raises(ControlError, match=text) as caught:
        await control(shared.rig, "POST", f"/groups/{GROUP}/release", **given)
    assert caught.value.status == status


async def test_only_share_groups_have_deliveries() -> None:
    async with Rig(config=GROUPS_CONFIG) as rig:
        with pytest.raises(ControlError, match="no such group") as caught:
            await control(rig, "GET", "/groups/g/deliveries")
        assert caught.value.status == 404
        await rig.create("t", 2)
        await ClassicMember(rig, "g", "t", client_id="c").enter({"t": [0, 1]})
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
        with pytest.raises(ControlError, match="a classic group commits offsets") as caught:
            await control(rig, "GET", "/groups/g/deliveries")
        assert caught.value.status == 409


# -- ends and beginnings


async def test_the_name_of_a_share_group_that_is_deleted_may_be_used_again(shared: Shared) -> None:
    """The share coordinator has forgotten its states, whose epochs would fence those of the new group."""
    await shared.produce(b"a")
    for name in ("m", "n"):
        await (await shared.member(name)).leave()
    await control(shared.rig, "POST", f"/groups/{GROUP}/reset_offsets", to=1, topic="t")
    await control(shared.rig, "DELETE", f"/groups/{GROUP}")
    assert (await control(shared.rig, "GET", f"/groups/{GROUP}"))["state"] == "Dead"
    assert acquired(await (await shared.member()).fetch()) == [(0, 0, 1)]


async def test_nothing_is_in_flight_after_a_reset_though_consumers_are_still_there(shared: Shared) -> None:
    await shared.produce(b"a", b"b")
    member = await shared.member()
    await member.fetch()
    await member.acknowledge(0, 0, ACCEPT)
    mark = (await control(shared.rig, "GET", "/mark"))["mark"]
    await control(shared.rig, "POST", "/reset", mark=mark | {"groups": []})
    assert acquired(await (await shared.member("n")).fetch()) == [(0, 1, 1)]


async def test_a_share_group_starts_at_the_offsets_of_a_reset(shared: Shared) -> None:
    await shared.produce(b"a", b"b", b"c", b"d")
    path = f"/groups/{GROUP}/reset_offsets"
    member = await shared.member()
    with pytest.raises(ControlError, match="while it has no members"):
        await control(shared.rig, "POST", path, to="earliest")
    await member.fetch()
    await member.acknowledge(0, 3, ACCEPT, final=True)
    await member.leave()
    told = await control(shared.rig, "POST", path, to=3)
    assert told["partitions"] == [{"topic": "t", "partition": 0, "offset": 3}]
    assert (await lag_of(shared))["total"] == 1
    assert acquired(await (await shared.member("n")).fetch()) == [(3, 3, 1)]


# -- metrics


async def test_share_groups_and_their_lag_are_among_the_metrics(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a", b"b", b"c")
    await member.fetch()
    metrics = shared.rig.node.local.metrics
    where = f'{{group="{GROUP}",partition="0",topic="t"}}'
    assert f"odradek_share_group_lag{where}" not in samples(metrics), "as in Kafka, before the first acknowledgement"
    await member.acknowledge(1, 1, ACCEPT)
    found = samples(metrics)
    assert (found[f"odradek_share_group_lag{where}"], found[f"odradek_share_group_start_offset{where}"]) == (2, 0)
    assert found['kafka_server_group_coordinator_metrics_share_group_count{state="stable"}'] == 1
