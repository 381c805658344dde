"""Streams groups: joining, topics, assignment, moves of tasks, delays, sessions, static members."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.group.modern.group import LEFT_FOR_A_WHILE
from coordinator.group.streams.group import NO_TASKS
from coordinator.group.streams.topology import Status
from protocol.coordinator_records.streams_group_records import Endpoint, StreamsGroupTopologyValue, Subtopology
from protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    StreamsInvalidTopology,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tests.unit.coordinator.group.streams.rig import GROUP, Client, StreamsRig, active, settle, topology

pytestmark = pytest.mark.asyncio


async def test_the_first_member_gets_all_tasks_at_epoch_2() -> None:
    rig = await StreamsRig.having({"a": 3})
    answer = rig.join("m")
    assert (answer.member_epoch, answer.assigned, answer.statuses) == (2, active(0, 1, 2), ())
    assert rig.streams.state_name == "Stable"
    assert rig.send("m", 2).assigned is None
    assert rig.send("m", 2).member_epoch == 2


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
        ({"owned": None}, InvalidRequest),
        ({"owned": active(0)}, InvalidRequest),
        ({"instance_id": " "}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"wanted": StreamsGroupTopologyValue(0, (Subtopology("0", ()),))}, StreamsInvalidTopology),
    ],
)
async def test_a_wrong_join_is_refused(fields: dict[str, Any], error: type[KafkaError]) -> None:
    rig = await StreamsRig.having({"a": 1})
    with pytest.raises(error):
        rig.join("m", **fields)
    assert rig.shard.groups.find(GROUP) is None


async def test_a_wrong_heartbeat_is_refused() -> None:
    rig = await StreamsRig.having({"a": 1})
    with pytest.raises(GroupIdNotFound):
        rig.send("m", 2)
    rig.join("m")
    rig.join("n")
    wrong: list[tuple[str, int, dict[str, Any], type[KafkaError]]] = [
        ("m", 1, {"owned": active(0)}, FencedMemberEpoch),
        ("m", 9, {}, FencedMemberEpoch),
        ("x", 2, {}, UnknownMemberId),
        ("", 2, {}, InvalidRequest),
        ("m", 2, {"topology": topology("a")}, InvalidRequest),
        ("m", 2, {"owned": active(1)}, InvalidRequest),
        ("m", 2, {"owned": NO_TASKS._replace(standby={"7": frozenset({0})})}, InvalidRequest),
        ("m", -2, {}, InvalidRequest),
        ("m", -3, {}, InvalidRequest),
    ]
    for member, epoch, fields, error in wrong:
        with pytest.raises(error):
            rig.send(member, epoch, **fields)
    assert rig.send("m", 2).member_epoch == 3


async def test_another_topology_is_refused_also_in_an_empty_group_and_an_older_one_is_stale() -> None:
    rig = await StreamsRig.having({"a": 2, "b": 2})
    rig.join("m", topology("a", epoch=1))
    rig.send("m", -1)
    assert rig.streams.state_name == "Empty"
    for wrong in (topology("b", epoch=1), topology("a", epoch=2)):
        with pytest.raises(InvalidRequest):
            rig.join("n", wrong)
    answer = rig.join("n", topology("b", epoch=0))
    assert [problem.status for problem in answer.statuses] == [Status.STALE_TOPOLOGY]
    assert answer.assigned == active(0, 1)
    assert [problem.status for problem in rig.send("n", answer.member_epoch).statuses] == [Status.STALE_TOPOLOGY]


async def test_the_previous_epoch_is_good_with_no_more_than_the_own_tasks() -> None:
    rig = await StreamsRig.having({"a": 2})
    m, n = Client(rig, "m"), Client(rig, "n")
    settle([m, n])
    assert rig.streams.members["m"].previous_epoch == 2
    assert rig.send("m", 2, owned=m.owned).member_epoch == 3
    for owned in (None, active(0, 1)):
        with pytest.raises(FencedMemberEpoch):
            rig.send("m", 2, owned=owned)


async def test_tasks_move_in_two_steps() -> None:
    rig = await StreamsRig.having({"a": 4})
    m, n = Client(rig, "m"), Client(rig, "n")
    m.beat()
    joined = n.beat()
    assert (joined.member_epoch, n.partitions) == (3, [])
    kept = m.beat().assigned
    assert kept is not None and rig.streams.state_name == "Reconciling"
    assert (m.epoch, len(m.partitions)) == (2, 2), "it stays at its epoch until it has given up the others"
    states = {name: member.assignment_value().state for name, member in rig.streams.members.items()}
    assert states == {"m": 2, "n": 3}, "the numbers that Kafka's records have"
    assert n.beat().assigned is None
    m.beat()
    assert m.epoch == 3
    n.beat()
    assert sorted(m.partitions + n.partitions) == [0, 1, 2, 3]
    assert rig.streams.state_name == "Stable"


async def test_a_member_that_does_not_give_up_its_tasks_is_removed_after_the_rebalance_timeout() -> None:
    rig = await StreamsRig.having({"a": 2}, session_timeout_ms=1_000_000)
    m, n = Client(rig, "m"), Client(rig, "n")
    m.beat()
    n.beat()
    m.beat()
    rig.clock.advance(59_000)
    rig.send("m", 2, owned=active(0, 1))
    assert set(rig.streams.members) == {"m", "n"}
    rig.clock.advance(1_000)
    assert set(rig.streams.members) == {"n"}
    n.beat()
    assert n.partitions == [0, 1]


async def test_a_member_whose_session_ends_is_removed() -> None:
    rig = await StreamsRig.having({"a": 2}, session_timeout_ms=1000)
    m, n = Client(rig, "m"), Client(rig, "n")
    settle([m, n])
    rig.clock.advance(600)
    n.beat()
    rig.clock.advance(600)
    n.beat()
    assert (set(rig.streams.members), n.partitions) == ({"n"}, [0, 1])


async def test_topics_that_are_missing_are_told_and_all_goes_on_when_they_come() -> None:
    rig = await StreamsRig.having({})
    m = Client(rig, "m")
    answer = m.beat()
    assert (m.statuses, m.partitions) == ((Status.MISSING_SOURCE_TOPICS,), [])
    assert answer.statuses[0].detail == "Source topics a are missing."
    assert rig.streams.state_name == "NotReady"
    epoch = rig.streams.epoch
    m.beat()
    assert rig.streams.epoch == epoch
    rig.create("a", 2)
    m.beat()
    assert (m.statuses, m.partitions, rig.streams.state_name) == ((), [0, 1], "Stable")
    rig.topics.delete("a")
    rig.topic_changed("a")
    m.beat()
    m.beat()
    assert (m.statuses, m.partitions, rig.streams.state_name) == ((Status.MISSING_SOURCE_TOPICS,), [], "NotReady")


async def test_internal_topics_are_made_and_made_again() -> None:
    rig = await StreamsRig.having({"a": 2})
    m = Client(rig, "m", topology("a", stateful=True))
    answer = m.beat()
    assert m.statuses == (Status.MISSING_INTERNAL_TOPICS,)
    assert [(topic.name, topic.partitions) for topic in answer.to_create] == [("c", 2)]
    assert m.beat().to_create == ()
    assert (m.statuses, m.partitions) == ((), [0, 1])
    rig.topics.delete("c")
    rig.topic_changed("c")
    assert m.beat().to_create != ()
    settle([m])
    assert m.partitions == [0, 1]


async def test_partitions_that_are_added_become_tasks() -> None:
    rig = await StreamsRig.having({"a": 1})
    m = Client(rig, "m")
    m.beat()
    rig.topics.grow("a", 3)
    rig.topic_changed("a")
    m.beat()
    assert m.partitions == [0, 1, 2]


async def test_initial_rebalance_delay_ms_has_the_first_assignment_wait_for_others() -> None:
    rig = await StreamsRig.having({"a": 2}, initial_rebalance_delay_ms=3000)
    m, n = Client(rig, "m"), Client(rig, "n")
    for client in (m, n, m):
        answer = client.beat()
        assert (answer.member_epoch, client.partitions, client.statuses) == (1, [], (Status.ASSIGNMENT_DELAYED,))
    assert rig.streams.state_name == "Assigning"
    rig.clock.advance(3000)
    assert rig.streams.state_name == "Reconciling"
    m.beat()
    n.beat()
    assert sorted(m.partitions + n.partitions) == [0, 1]
    assert (m.statuses, m.epoch, n.epoch) == ((), 3, 3)


async def test_targets_are_made_at_most_once_in_an_interval() -> None:
    rig = await StreamsRig.having({"a": 2}, assignment_interval_ms=1000)
    m, n = Client(rig, "m"), Client(rig, "n")
    m.beat()
    n.beat()
    assert (m.epoch, n.epoch, n.partitions, n.statuses) == (2, 2, [], (Status.ASSIGNMENT_DELAYED,))
    assert rig.streams.state_name == "Assigning"
    rig.clock.advance(1000)
    settle([m, n])
    assert (len(m.partitions), len(n.partitions), n.statuses) == (1, 1, ())


async def test_leaving_raises_the_epoch_and_the_target_follows_with_another_member() -> None:
    rig = await StreamsRig.having({"a": 2})
    m, n = Client(rig, "m"), Client(rig, "n")
    settle([m, n])
    answer = rig.send("m", -1)
    assert (answer.member_epoch, answer.acceptable_recovery_lag, rig.streams.state_name) == (-1, -1, "Assigning")
    n.beat()
    assert n.partitions == [0, 1]
    rig.send("n", -1)
    assert rig.streams.epoch == rig.streams.assignment_epoch
    assert rig.streams.state_name == "Empty"
    assert rig.streams.topology is not None


async def test_num_standby_replicas_may_change_and_standbys_are_on_other_processes() -> None:
    rig = await StreamsRig.having({"a": 2, "c": 2}, standby_replicas=1)
    m, n = (Client(rig, name, topology("a", stateful=True)) for name in "mn")
    settle([m, n])
    assert sorted(m.partitions + n.partitions) == [0, 1]
    assert m.owned.standby == n.owned.active
    overrides = rig.streams_config.overrides
    assert isinstance(overrides, dict)
    overrides[GROUP] = {"num.standby.replicas": 0}
    epoch = rig.streams.epoch
    settle([m, n])
    assert (rig.streams.epoch, m.owned.standby, n.owned.standby) == (epoch + 1, {}, {})


async def test_members_of_a_process_do_not_have_a_task_twice() -> None:
    rig = await StreamsRig.having({"a": 4, "c": 4}, standby_replicas=1)
    clients = [Client(rig, name, topology("a", stateful=True)) for name in ("m1", "m2", "n1")]
    for client in clients:
        client.beat(process_id=client.name[0])
    settle(clients)
    for process in "mn":
        tasks = [
            (role, index)
            for client in clients
            if client.name[0] == process
            for role in ("active", "standby")
            for index in getattr(client.owned, role).get("0", ())
        ]
        indexes = [index for _, index in tasks]
        assert sorted(indexes) == [0, 1, 2, 3]


async def test_a_shutdown_is_told_to_all_until_the_group_is_empty() -> None:
    rig = await StreamsRig.having({"a": 2})
    m, n = Client(rig, "m"), Client(rig, "n")
    settle([m, n])
    m.beat(shuts_down=True)
    assert m.statuses == (Status.SHUTDOWN_APPLICATION,)
    n.beat()
    assert n.statuses == (Status.SHUTDOWN_APPLICATION,)
    newcomer = Client(rig, "x")
    newcomer.beat()
    assert newcomer.statuses == (Status.SHUTDOWN_APPLICATION,)
    for name in ("m", "n", "x"):
        rig.send(name, -1)
    again = Client(rig, "m")
    again.beat()
    assert again.statuses == ()


async def test_tags_that_every_member_must_have() -> None:
    rig = await StreamsRig.having({"a": 1}, tags={GROUP: ("zone", "row")})
    answer = rig.join("m", client_tags=(("zone", "1"),))
    assert [problem.status for problem in answer.statuses] == [Status.MISSING_CLIENT_TAGS]
    assert not rig.send("m", 2, client_tags=(("zone", "1"),), knows_tags=False).statuses
    assert not rig.send("m", 2, client_tags=(("zone", "1"), ("row", "2"))).statuses


async def test_endpoints_are_told_when_the_epoch_differs() -> None:
    rig = await StreamsRig.having({"a": 2})
    first = rig.join("m", user_endpoint=Endpoint("h", 1))
    assert first.endpoints is not None
    assert [(each.endpoint, dict(each.active)) for each in first.endpoints] == [(Endpoint("h", 1), {"a": [0, 1]})]
    assert rig.send("m", 2, endpoint_epoch=first.endpoint_epoch).endpoints is None
    assert rig.send("m", 2, endpoint_epoch=77).endpoints is not None
    epoch = rig.streams.epoch
    moved = rig.send("m", 2, user_endpoint=Endpoint("h", 2))
    assert rig.streams.epoch == epoch + 1
    again = rig.join("m", user_endpoint=Endpoint("h", 2))
    assert (again.endpoint_epoch, again.assigned) == (moved.endpoint_epoch, active(0, 1))  # nothing new for others


async def test_static_members() -> None:
    rig = await StreamsRig.having({"a": 2}, session_timeout_ms=1000)
    answer = rig.join("m", instance_id="i")
    epoch = answer.member_epoch
    with pytest.raises(UnreleasedInstanceId):
        rig.join("n", instance_id="i")
    assert rig.send("m", epoch).member_epoch == epoch, "no instance in a heartbeat passes"
    with pytest.raises(UnknownMemberId):
        rig.send("m", epoch, instance_id="j")
    assert rig.send("m", -2, instance_id="i").member_epoch == -2
    assert (rig.streams.epoch, rig.streams.state_name) == (epoch, "Reconciling")
    after = rig.join("n", instance_id="i", process_id="process of m")
    assert (after.member_epoch, after.assigned, set(rig.streams.members)) == (epoch, active(0, 1), {"n"})
    with pytest.raises(FencedInstanceId):
        rig.send("m", epoch, instance_id="i")
    with pytest.raises(UnknownMemberId):
        rig.send("m", epoch)
    rig.send("n", -2, instance_id="i")
    rig.clock.advance(1000)
    assert rig.streams.is_empty
    assert not rig.streams.static_ids


async def test_joining_again_is_a_full_heartbeat() -> None:
    rig = await StreamsRig.having({"a": 1})
    rig.join("m")
    again = rig.join("m")
    assert (again.member_epoch, again.assigned) == (2, active(0))


async def test_a_group_has_a_largest_size() -> None:
    rig = await StreamsRig.having({"a": 1}, max_size=1)
    rig.join("m")
    with pytest.raises(GroupMaxSizeReached):
        rig.join("n")
    with pytest.raises(UnknownMemberId):
        rig.send("n", 5)


async def test_a_static_member_comes_back_to_a_full_group() -> None:
    rig = await StreamsRig.having({"a": 1}, max_size=1)
    rig.join("m", instance_id="i")
    rig.send("m", LEFT_FOR_A_WHILE, instance_id="i")
    assert rig.join("n", instance_id="i").assigned == active(0)
