"""Share groups: their share sessions, what is delivered, and acquisition locks that end on demand (KIP-932).

A share partition is with the broker that leads its partition: each broker tells, and ends, what it has itself.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection
from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.groups import GROUP, NOT_FOUND
from broker.inspection.cluster import read_group
from broker.inspection.groups import GroupView
from broker.inspection.share_groups import RangeView, SharePartitionView, in_flight_here, is_share, sessions_of
from broker.node import Node
from broker.share.runs import RecordState
from broker.share.share_partition import SharePartition

End = Callable[[SharePartition, Collection[str] | None, int | None], tuple[int, Future[None]]]


async def _deliveries(node: Node, values: Values) -> dict[str, Any]:
    group = await _share_group(node, values["group"])
    return {
        "group": group.group_id,
        "share_sessions": sorted(sessions_of(node, group.group_id)),
        "partitions": [_partition(one) for one in in_flight_here(node, group.group_id)],
    }


def _partition(one: SharePartitionView) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "start_offset": one.start,
        "end": one.end,
        "in_flight": [_range(each) for each in one.ranges],
    }


def _range(one: RangeView) -> dict[str, Any]:
    is_acquired = one.state is RecordState.ACQUIRED
    return {
        "first_offset": one.first,
        "last_offset": one.last,
        "state": one.state.name,
        "delivery_count": one.delivery_count,
        "member": one.member_id if is_acquired else None,
        "lock_ends_in": round(one.lock_left_ms / 1000, 3) if is_acquired else None,
    }


async def _release(node: Node, values: Values) -> dict[str, Any]:
    return {"released": await _end(node, values, SharePartition.release)}


async def _expire_locks(node: Node, values: Values) -> dict[str, Any]:
    return {"released": await _end(node, values, SharePartition.expire_locks)}


async def _end(node: Node, values: Values, end: End) -> int:
    """End acquisitions; returns how many records are released, once that is durable."""
    group = await _share_group(node, values["group"])
    topic, partition, offset = values.get("topic"), values.get("partition"), values.get("offset")
    if topic is None and partition is not None:
        raise ControlError("topic is missing: a partition is that of a topic", parameter="topic")
    if partition is None and offset is not None:
        raise ControlError("partition is missing: an offset is that of a partition", parameter="partition")
    members = _members(node, group, values.get("member"))
    known = {one.id: one.name for one in node.cluster.cache.image.topics}
    ended = [
        end(share, members, offset)
        for key, share in node.local.share.of_group(group.group_id)
        if topic in (None, known.get(key.topic_id)) and partition in (None, key.partition)
    ]
    for _, durable in ended:
        await durable
    return sum(count for count, _ in ended)


def _members(node: Node, group: GroupView, name: str | None) -> Collection[str] | None:
    """The member ids that a name stands for, a member id or a client id; None for all."""
    if name is None:
        return None
    holders = {run.member_id for _, share in node.local.share.of_group(group.group_id) for run in share.in_flight()}
    ids = {one.member_id for one in group.members if name in (one.member_id, one.client_id)} | (holders & {name})
    if not ids:
        there = ", ".join(f"{known.member_id} (client {known.client_id})" for known in group.members) or "none"
        raise ControlError(
            f"member = {name!r}: group {group.group_id} has no such member; expected a member id or a client id; its "
            f"members: {there}",
            parameter="member",
            status=NOT_FOUND,
        )
    return ids


async def _share_group(node: Node, group_id: str) -> GroupView:
    group = await read_group(node, group_id)
    if not group.exists:
        raise ControlError(f"group = {group_id!r}: there is no such group", parameter="group", status=NOT_FOUND)
    if not is_share(group):
        raise ControlError(
            f"group = {group_id!r}: a {group.protocol} group commits offsets; only share groups acquire records",
            parameter="group",
            status=409,
        )
    return group


WHICH = (
    GROUP,
    Parameter("member", Kind.STRING, "a member id or client id; if missing, all members"),
    Parameter("topic", Kind.STRING, "a topic; if missing, all"),
    Parameter("partition", Kind.INTEGER, "a partition of the topic; if missing, all", least=0),
    Parameter("offset", Kind.INTEGER, "one record of the partition; if missing, all", least=0),
)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/groups/{group}/deliveries",
        "What a share group has in flight in the partitions that this broker leads, and its share sessions here.",
        _deliveries,
        (GROUP,),
    ),
    Endpoint(
        "POST",
        "/groups/{group}/release",
        "Release acquired records of a share group, as their consumer can.",
        _release,
        WHICH,
    ),
    Endpoint(
        "POST",
        "/groups/{group}/expire_locks",
        "End acquisition locks of a share group now, as share.record.lock.duration.ms does.",
        _expire_locks,
        WHICH,
    ),
)
