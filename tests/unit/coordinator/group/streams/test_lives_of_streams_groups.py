"""Streams groups over their lives: restarts, deletion, commits, and turns into groups of other kinds and back."""

from __future__ import annotations

import pytest

from coordinator.group.kinds import OwnedPartition
from coordinator.group.share.heartbeat import share_group_heartbeat
from coordinator.group.streams.group import StreamsGroup
from protocol.coordinator_records.streams_group_records import Endpoint
from protocol.errors import (
    GroupIdNotFound,
    InconsistentGroupProtocol,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.offsets.rig import NONE, offset
from tests.unit.coordinator.group.rig import Client as ClassicClient
from tests.unit.coordinator.group.share.rig import ShareHeartbeat
from tests.unit.coordinator.group.streams.rig import GROUP, Client, StreamsRig, active, settle, topology

pytestmark = pytest.mark.asyncio


async def test_everything_is_there_after_a_restart() -> None:
    rig = await StreamsRig.having({"a": 4, "c": 4}, standby_replicas=1)
    clients = [Client(rig, name, topology("a", stateful=True)) for name in "mno"]
    for client in clients:
        client.beat(user_endpoint=Endpoint(client.name, 1), client_tags=(("z", "1"),))
    soft = {"is_fresh": False, "configured": None, "endpoint_epoch": 0}
    before = vars(rig.streams) | soft
    await rig.restart()
    assert vars(rig.streams) | soft == before
    settle(clients)
    assert sorted(index for client in clients for index in client.partitions) == [0, 1, 2, 3]
    rig.clock.advance(45_000)
    assert rig.streams.is_empty


async def test_a_deleted_group_leaves_nothing() -> None:
    rig = await StreamsRig.having({"a": 2})
    rig.join("m")
    rig.send("m", -1)
    assert [record.key[0] for record in rig.shard.groups.deletion(GROUP)] == [GROUP] * 3


async def test_commits() -> None:
    rig = await StreamsRig.having({"a": 2})
    rig.join("m")

    def commit(member: str, epoch: int, *, transactional: bool = False, knows: bool = True) -> None:
        rig.streams.validate_offset_commit(
            member,
            None,
            epoch,
            transactional=transactional,
            knows_member_epochs=knows,
            partitions=[OwnedPartition("a", None, 0)],
        )

    commit("m", 2)
    commit("", -1, transactional=True)
    for member, epoch, knows, error in (
        ("m", 1, True, StaleMemberEpoch),
        ("m", 3, True, StaleMemberEpoch),
        ("x", 2, True, UnknownMemberId),
        ("", -1, True, UnknownMemberId),
        ("m", 2, False, UnsupportedVersion),
    ):
        with pytest.raises(error):
            commit(member, epoch, knows=knows)
    assert rig.streams.is_subscribed_to_topic("a")
    rig.send("m", -1)
    commit("", -1)
    assert not rig.streams.is_subscribed_to_topic("a")


async def test_kip_1251_what_a_member_has_had_since_an_epoch_may_be_committed_with_it() -> None:
    rig = await StreamsRig.having({"a": 4, "b": 4})
    m, n = Client(rig, "m"), Client(rig, "n")
    m.beat()
    settle([n, m, n])
    assert (m.epoch, n.epoch) == (3, 3)
    (old, new) = m.partitions[0], n.partitions[0]
    codes = [rig.commit(offset(old, 7, "a"), group=GROUP, member_id="m", generation=epoch) for epoch in (2, 3)]
    assert codes == [[NONE], [NONE]]
    assert rig.commit(offset(new, 7, "a"), group=GROUP, member_id="n", generation=3) == [NONE]
    for member, index, topic, epoch in (
        ("n", new, "a", 2),
        ("m", new, "a", 2),
        ("m", old, "b", 2),
        ("m", old, "a", 1),
        ("m", old, "a", 4),
    ):
        with pytest.raises(StaleMemberEpoch):
            rig.commit(offset(index, 7, topic), group=GROUP, member_id=member, generation=epoch)


async def test_an_empty_classic_group_turns_into_a_streams_group() -> None:
    rig = await StreamsRig.having({"a": 2})
    classic = ClassicClient(rig)
    classic.join()
    await rig.pass_ms(1)
    with pytest.raises(GroupIdNotFound):
        rig.join("m")
    classic.leave()
    assert rig.group.is_empty
    with pytest.raises(GroupIdNotFound):
        rig.send("m", 2)
    assert rig.join("m").assigned == active(0, 1)
    for _ in range(2):
        assert rig.shard.groups.find(GROUP) is rig.streams
        assert [group.group_id for group in rig.shard.groups.all()] == [GROUP]
        await rig.restart()


async def test_an_empty_streams_group_turns_into_a_classic_group_and_no_other() -> None:
    rig = await StreamsRig.having({"a": 2})
    rig.join("m")
    assert isinstance(ClassicClient(rig).join().exception(), InconsistentGroupProtocol)
    rig.send("m", -1)
    share = ShareHeartbeat(GROUP, "s", 0, None, ("a",), "c", "/h")
    with pytest.raises(GroupIdNotFound):
        ask(rig.runtime, lambda state: share_group_heartbeat(state.groups.modern, share)).result()
    ClassicClient(rig).join()
    await rig.pass_ms(1)
    with pytest.raises(GroupIdNotFound):
        rig.join("m")
    for _ in range(2):
        assert rig.shard.groups.find(GROUP) is rig.group
        assert rig.shard.groups.modern.find(StreamsGroup, GROUP) is None
        await rig.restart()
