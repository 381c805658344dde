"""Groups through the control interface: what is seen, waited for and done on demand."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testkit.control.endpoint import TIMED_OUT, ControlError
from tests.doubles.clock import settle
from tests.unit.broker.members import CONFIG, SESSION_S, TICK_MS, ClassicMember, ConsumerMember, commit
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import begin, control
from tests.unit.broker.wire import NOW, batch, produce

TWO = {"t": [0, 1]}


async def in_group(rig: Rig, client_id: str = "c1", instance: str | None = None) -> ClassicMember:
    """The only member of the group g, with both partitions of t."""
    member = ClassicMember(rig, "g", "t", client_id=client_id, instance=instance)
    await member.enter(TWO)
    return member


async def fill(rig: Rig, partition: int, *values: bytes) -> None:
    await rig.connect().ask("produce", 9, **produce("t", {partition: batch(*values)}))


async def test_a_group_that_does_not_exist_is_dead_and_has_no_members() -> None:
    async with Rig(config=CONFIG) as rig:
        for _ in ("without the topic of offsets", "with it"):
            group = await control(rig, "GET", "/groups/g")
            assert (group["state"], group["members"]) == ("Dead", [])
            assert await control(rig, "GET", "/groups/g/lag") == {"group": "g", "total": 0, "partitions": []}
            await rig.node.coordinators.groups.ensure_topic()
        assert await control(rig, "GET", "/groups") == {"groups": []}
        for method, path in (("POST", "rebalance"), ("POST", "expire"), ("DELETE", "")):
            with pytest.raises(ControlError) as caught:
                await control(rig, method, f"/groups/g/{path}".rstrip("/"))
            assert (caught.value.status, caught.value.parameter) == (404, "group")


async def test_a_classic_member_is_shown_with_what_it_has_and_until_when_it_lives() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig, instance="i1")
        await rig.clock.run(4_000)
        group = await control(rig, "GET", "/groups/g")
        assert (group["state"], group["protocol"], group["generation"], group["assignor"]) == (
            "Stable",
            "classic",
            1,
            "range",
        )
        assert group["members"] == [
            {
                "id": member.member_id,
                "client_id": "c1",
                "host": "10.0.0.7",
                "instance_id": "i1",
                "protocol": "classic",
                "leader": True,
                "topics": ["t"],
                "assignment": TWO,
                "waits_for": None,
                "session_ends_in": SESSION_S - 4,
            }
        ]
        listed = {"group": "g", "state": "Stable", "protocol": "classic", "members": 1}
        assert await control(rig, "GET", "/groups") == {"groups": [listed]}


async def test_a_member_of_the_consumer_protocol_is_shown_the_same_way() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = ConsumerMember(rig, "g", "t")
        await member.heartbeat()
        group = await control(rig, "GET", "/groups/g")
        (shown,) = group["members"]
        assert (group["state"], group["protocol"], group["generation"]) == ("Stable", "consumer", member.epoch)
        assert (shown["id"], shown["assignment"], shown["topics"], shown["leader"]) == (
            member.member_id,
            TWO,
            ["t"],
            False,
        )
        assert shown["session_ends_in"] == 45 - TICK_MS / 1000


async def test_lag_counts_from_the_commit_and_without_one_from_the_start() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig)
        await fill(rig, 0, b"a", b"b", b"c")
        await fill(rig, 1, b"d")
        assert await member.commit("t", {0: 1}) == ["none"]
        lag = await control(rig, "GET", "/groups/g/lag")
        assert lag["total"] == 3
        assert lag["partitions"] == [
            {"topic": "t", "partition": 0, "committed": 1, "end": 3, "lag": 2},
            {"topic": "t", "partition": 1, "committed": None, "end": 1, "lag": 1},
        ]
        (committed,) = (await control(rig, "GET", "/groups/g/committed"))["partitions"]
        assert (committed["partition"], committed["offset"], committed["in_transaction"]) == (0, 1, False)


async def test_a_wait_ends_when_the_group_appears_and_is_as_wanted() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        waiting = await begin(rig, "POST", "/groups/g/wait", state="Stable", members=1, timeout=60)
        assert not waiting.done()
        member = ClassicMember(rig, "g", "t")
        await member.send_join()
        member.joined()
        assert not waiting.done()
        await member.sync({member.member_id: TWO})
        assert waiting.done()
        assert (await waiting)["state"] == "Stable"


async def test_a_wait_for_lag_ends_with_the_commit_of_the_last_record() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig)
        await fill(rig, 0, b"a", b"b")
        waiting = await begin(rig, "POST", "/groups/g/wait", lag=0, timeout=60)
        await member.commit("t", {0: 1})
        await settle()
        assert not waiting.done()
        await member.commit("t", {0: 2})
        await settle()
        assert (await waiting)["lag"] == 0


async def test_a_lag_says_nothing_while_members_wait_for_partitions() -> None:
    """Or a test would go on before the first record is read."""
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = ClassicMember(rig, "g", "t")
        await member.send_join()
        with pytest.raises(ControlError, match="its lag counts once it is Stable or Empty") as caught:
            await control(rig, "POST", "/groups/g/wait", lag=0, timeout=0)
        assert caught.value.status == TIMED_OUT


async def test_a_wait_in_vain_says_how_the_group_is() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await in_group(rig)
        await fill(rig, 0, b"a", b"b")
        with pytest.raises(ControlError) as caught:
            await control(rig, "POST", "/groups/g/wait", state="Stable", members=2, lag=0, timeout=0)
        assert str(caught.value) == (
            "waited 0 s for state Stable, 2 members, a lag of at most 0: "
            "group g is Stable with 1 member (c1), lag 2 (t-0: 2)"
        )
        with pytest.raises(ControlError, match="name what to wait for"):
            await control(rig, "POST", "/groups/g/wait")


# -- on demand


async def test_a_rebalance_begins_now_and_the_member_hears_of_it() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig)
        assert await member.heartbeat() == "none"
        assert (await control(rig, "POST", "/groups/g/rebalance"))["state"] == "PreparingRebalance"
        assert (await control(rig, "POST", "/groups/g/rebalance"))["state"] == "PreparingRebalance"
        assert await member.heartbeat() == "rebalance_in_progress"
        await member.send_join()
        assert member.joined().generation_id == 2


async def test_a_rebalance_of_a_consumer_group_is_a_new_epoch() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = ConsumerMember(rig, "g", "t")
        await member.heartbeat()
        before = member.epoch
        assert (await control(rig, "POST", "/groups/g/rebalance"))["state"] == "Assigning"
        await member.heartbeat()
        assert member.epoch == before + 1


async def test_a_group_without_members_has_nothing_to_rebalance() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 1)
        await commit(rig.connect(), "g", "t", {0: 0})
        with pytest.raises(Exception, match="has no members"):
            await control(rig, "POST", "/groups/g/rebalance")


@pytest.mark.parametrize("by", ["member_id", "client_id", "instance"])
async def test_a_session_ends_now_by_any_of_the_member_s_names(by: str) -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig, instance="i1")
        done = await control(rig, "POST", "/groups/g/expire", member=getattr(member, by))
        assert (done["expired"], done["state"], done["members"]) == ([member.member_id], "Empty", [])
        assert await member.heartbeat() == "unknown_member_id"


async def test_without_a_name_every_session_ends_and_an_expiry_counts_as_one() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        members = [ConsumerMember(rig, "g", "t", client_id=name) for name in ("c1", "c2")]
        for member in members:
            await member.heartbeat()
        done = await control(rig, "POST", "/groups/g/expire")
        assert (done["expired"], done["state"]) == ([member.member_id for member in members], "Empty")
        assert rig.node.coordinators.groups.counts.expired_members == 2
        assert (await members[0].heartbeat()).error_code.name == "unknown_member_id"


async def test_one_of_two_members_expires_and_the_other_gets_its_partitions() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        first, second = (ConsumerMember(rig, "g", "t", client_id=name) for name in ("c1", "c2"))
        await first.heartbeat()
        await second.heartbeat()
        await control(rig, "POST", "/groups/g/expire", member="c1")
        told = await second.heartbeat()
        assert [list(one.partitions) for one in told.assignment.topic_partitions] == [[0, 1]]


async def test_a_name_that_no_member_has_is_refused_with_those_there_are() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        member = await in_group(rig)
        with pytest.raises(ControlError, match=member.member_id) as caught:
            await control(rig, "POST", "/groups/g/expire", member="nobody")
        assert caught.value.parameter == "member"


async def test_a_member_that_waits_for_its_answer_counts_as_alive() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        first = await in_group(rig, "c1")
        second = ClassicMember(rig, "g", "t", client_id="c2")
        await second.send_join()
        await first.send_join()  # both join, and the second waits for the leader's SyncGroup
        first.joined()
        second.joined()
        await second.sync()
        with pytest.raises(Exception, match="counts as alive"):
            await control(rig, "POST", "/groups/g/expire", member="c2")


# -- offsets


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [3, 0]),
        (2, [2, 2]),
        ("7", [7, 7]),
        ("2023-11-14T22:13:20.001Z", [1, 0]),
        ("2030-01-01T00:00:00", [3, 0]),
    ],
)
async def test_offsets_are_reset_to_an_end_an_offset_or_a_time(to: Any, expected: list[int]) -> None:
    assert NOW == 1_700_000_000_000, "2023-11-14T22:13:20Z"
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await fill(rig, 0, b"a", b"b", b"c")
        done = await control(rig, "POST", "/groups/g/reset_offsets", to=to, topic="t")
        assert [one["offset"] for one in done["partitions"]] == expected
        assert (await control(rig, "GET", "/groups/g"))["state"] == "Empty"


async def test_a_reset_without_a_topic_is_of_all_that_the_group_has_committed() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await rig.create("u", 1)
        await fill(rig, 1, b"a")
        client = rig.connect()
        await commit(client, "g", "t", {1: 0})
        await commit(client, "g", "u", {0: 9})
        done = await control(rig, "POST", "/groups/g/reset_offsets", to="latest")
        assert [(one["topic"], one["partition"], one["offset"]) for one in done["partitions"]] == [
            ("t", 1, 1),
            ("u", 0, 0),
        ]


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"to": "yesterday", "topic": "t"}, "to"),
        ({"to": -1, "topic": "t"}, "to"),
        ({"to": 1.5, "topic": "t"}, "to"),
        ({"topic": "t"}, "to"),
        ({"to": 0}, "topic"),
        ({"to": 0, "topic": "nowhere"}, "topic"),
        ({"to": 0, "partitions": [0]}, "topic"),
        ({"to": 0, "topic": "t", "partitions": [0, 2]}, "partitions"),
        ({"to": 0, "topic": "t", "partitions": ["x"]}, "partitions"),
    ],
)
async def test_a_wrong_reset_names_the_parameter(given: dict[str, Any], parameter: str) -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        with pytest.raises(ControlError) as caught:
            await control(rig, "POST", "/groups/g/reset_offsets", **given)
        assert caught.value.parameter == parameter


async def test_offsets_of_a_group_with_members_are_not_touched_and_it_is_not_deleted() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 2)
        await in_group(rig)
        with pytest.raises(ControlError, match="stop c1, or expire"):
            await control(rig, "POST", "/groups/g/reset_offsets", to=0, topic="t")
        with pytest.raises(ControlError, match="has members: c1"):
            await control(rig, "DELETE", "/groups/g")
        await control(rig, "POST", "/groups/g/expire")
        await control(rig, "DELETE", "/groups/g")
        assert (await control(rig, "GET", "/groups/g"))["state"] == "Dead"
