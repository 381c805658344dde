"""The group APIs over the wire where the coordinator is elsewhere, or loads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from coordinator.runtime.coordinator_context import CoordinatorState
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer

GROUP = "readers"
MEMBER: dict[str, Any] = {"group_id": GROUP, "generation_id": 1, "member_id": "m", "group_instance_id": None}
SECONDS = timedelta(seconds=10)
NONE = ErrorCode.none

ASKED: dict[str, tuple[int, dict[str, Any], Callable[[Any], ErrorCode]]] = {
    "join_group": (
        9,
        {
            "group_id": GROUP,
            "session_timeout": SECONDS,
            "rebalance_timeout": SECONDS,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
            "reason": None,
        },
        lambda answer: answer.error_code,
    ),
    "sync_group": (
        5,
        {**MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": ()},
        lambda answer: answer.error_code,
    ),
    "heartbeat": (4, MEMBER, lambda answer: answer.error_code),
    "leave_group": (
        5,
        {"group_id": GROUP, "members": (MemberIdentity(member_id="m", group_instance_id=None, reason=None),)},
        lambda answer: answer.error_code,
    ),
    "offset_commit": (
        9,
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": (
                OffsetCommitRequestTopic(
                    name="letters",
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
                        ),
                    ),
                ),
            ),
        },
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
    "offset_fetch": (
        9,
        {
            "groups": (OffsetFetchRequestGroup(group_id=GROUP, member_id=None, member_epoch=-1, topics=None),),
            "require_stable": False,
        },
        lambda answer: answer.groups[0].error_code,
    ),
    "offset_delete": (
        0,
        {
            "group_id": GROUP,
            "topics": (
                OffsetDeleteRequestTopic(name="letters", partitions=(OffsetDeleteRequestPartition(partition_index=0),)),
            ),
        },
        lambda answer: answer.error_code,
    ),
    "describe_groups": (
        6,
        {"groups": (GROUP,), "include_authorized_operations": False},
        lambda answer: answer.groups[0].error_code,
    ),
    "delete_groups": (2, {"groups_names": (GROUP,)}, lambda answer: answer.results[0].error_code),
}


async def ask(rig: Rig, api: str) -> ErrorCode:
    version, fields, code = ASKED[api]
    return code(await rig.connect().ask(api, version, **fields))


@pytest.mark.parametrize("api", ASKED)
async def test_where_no_coordinator_is_the_client_must_look_for_it(api: str) -> None:
    async with Rig() as rig:
        await rig.create("letters")
        await rig.node.coordinators.groups.ensure_topic()
        rig.node.coordinators.groups.runtime.unload_all()
        assert await ask(rig, api) is ErrorCode.not_coordinator


@pytest.mark.parametrize("api", ASKED)
async def test_while_the_coordinator_loads_the_client_must_wait(api: str) -> None:
    """A heartbeat is accepted unchecked, so that no member rejoins needlessly."""
    async with Rig() as rig:
        await rig.create("letters")
        await rig.node.coordinators.groups.ensure_topic()
        for context in rig.node.coordinators.groups.runtime.contexts():
            context.unload(CoordinatorState.LOADING)
        assert await ask(rig, api) is (NONE if api == "heartbeat" else ErrorCode.coordinator_load_in_progress)


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SHARE_KEYS = {
    f"g:{TOPIC_ID}:1": True,
    f"g:{TOPIC_ID}==:-1": True,
    f"g:{TOPIC_ID}:+1": True,
    f"g:{TOPIC_ID}:1:": True,
    f"g:{TOPIC_ID}:": False,
    f" :{TOPIC_ID}:1": False,
    f"g:{TOPIC_ID}=:1": False,
    f"g:!!{TOPIC_ID}:1": False,
    f"g:+{TOPIC_ID[1:]}:1": False,
    f"g:{TOPIC_ID}: 1": False,
    f"g:{TOPIC_ID}:1_0": False,
    f"g:{TOPIC_ID}:99999999999": False,
}
"""Keys of share groups' partitions, and whether a real Kafka 4.1 takes them for that."""


async def test_keys_of_share_groups_partitions_are_read_as_kafka_reads_them() -> None:
    async with Rig() as rig:
        answer = await rig.connect().ask("find_coordinator", 6, key_type=2, coordinator_keys=tuple(SHARE_KEYS))
    well_formed = {one.key: one.error_code is not ErrorCode.invalid_request for one in answer.coordinators}
    assert well_formed == SHARE_KEYS


async def test_a_members_ipv6_address_is_told_as_java_shows_it() -> None:
    async with Rig(config={"group.initial.rebalance.delay.ms": "0"}) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        client = rig.connect("::1")
        fields = {**ASKED["join_group"][1], "group_instance_id": "i"}
        del fields["reason"]
        client.send("join_group", 5, **fields)
        await rig.clock.run(10)
        assert len(client.replies()) == 1
        described = await client.ask("describe_groups", 5, groups=(GROUP,), include_authorized_operations=False)
        assert [member.client_host for member in described.groups[0].members] == ["/0:0:0:0:0:0:0:1"]


async def test_a_protocol_whose_name_is_empty_is_told_as_null_just_as_none() -> None:
    async with Rig(config={"group.initial.rebalance.delay.ms": "0"}) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        version, fields, _ = ASKED["join_group"]
        fields = fields | {"protocols": (JoinGroupRequestProtocol(name="", metadata=b""),)}
        client = rig.connect()
        refused = await client.ask("join_group", version, **fields)
        client.send("join_group", version, **fields | {"member_id": refused.member_id})
        await rig.clock.run(10)
        (reply,) = client.replies()
        joined = answer(reply, "join_group", version)
    assert (refused.error_code, refused.protocol_name) == (ErrorCode.member_id_required, None)
    assert (joined.error_code, joined.protocol_name) == (NONE, None)
