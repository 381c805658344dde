"""Where a group reads: offsets that are reset, and what a share group has in flight (KIP-932).

A reset commits other offsets, or has a share group start at them. What was acquired and not acknowledged is with the
broker that leads the partition: each broker tells, and ends, what it has itself.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.node import Node
from broker.peers.leaders import NONE, Unknown
from broker.share.runs import RecordState
from broker.share.share_partition import SharePartition
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values, time_of
from broker.testkit.control.groups import GROUP, committed_json, group_here, no_such_group, no_such_member
from broker.testkit.inspection import read_group
from broker.testkit.inspection.groups import GroupView
from broker.testkit.inspection.partitions import PartitionView, offsets_at_time, read_partitions
from broker.testkit.inspection.share_and_streams import (
    RangeView,
    SharePartitionView,
    in_flight_here,
    read_share_offsets,
    sessions_of,
)
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from coordinator.group.share.partition_states import begin_altering, joined, note_altered
from protocol.coordinator_records.share_records import SharePartitionKey, TopicPartitions
from protocol.topic_partition import PartitionKey

ENDPOINTS = Endpoints()

WHICH = (
    GROUP,
    Parameter("member", Kind.STRING, "a member id or client id; if missing, all members"),
    Parameter("topic", Kind.STRING, "a topic; if missing, all"),
    Parameter("partition", Kind.INTEGER, "a partition of the topic; if missing, all", least=0),
    Parameter("offset", Kind.INTEGER, "one record of the partition; if missing, all", least=0),
)


EARLIEST, LATEST = "earliest", "latest"
ACCEPTED = "expected earliest, latest, an offset from 0 on, or a time such as 2026-11-27T04:00:00Z"

Target = str | int | datetime


@ENDPOINTS(
    "POST /groups/{group}/reset_offsets",
    "Commit other offsets for a group without members; a share group starts at them.",
    GROUP,
    Parameter(
        "to",
        Kind.STRING_OR_INTEGER,
        "earliest, latest, an offset, or a time such as 2026-11-27T04:00:00Z",
        required=True,
    ),
    Parameter("topic", Kind.STRING, "a topic; if missing, those to which the group has committed"),
    Parameter("partitions", Kind.ARRAY, "partitions of the topic; if missing, all"),
)
async def _reset_offsets(node: Node, values: Values) -> dict[str, Any]:
    """Commit as an administrator does: only where no member is active."""
    coordinator, group_id = node.coordinators.groups, values["group"]
    group = await group_here(node, group_id)
    if group.members:
        clients = ", ".join(member.client_id or member.member_id for member in group.members)
        raise ControlError(
            f"group {group_id} is {group.state}: offsets are reset while it has no members; stop {clients}, or expire "
            "their sessions",
            status=409,
        )
    offsets = await resolve(node, group, values["to"], values.get("topic"), values.get("partitions"))
    await coordinator.ensure_topic()
    if group.is_share:
        return await start_share_group(node, group_id, offsets)
    commit = Commit(group_id, [OffsetToCommit(topic, index, offset, -1, "") for (topic, index), offset in offsets])
    codes = await coordinator.write(group_id, lambda state: state.offsets.commit(commit))
    refused = [code for code in codes if code is not ErrorCode.none]
    if refused:
        raise ControlError(f"the offsets were refused: {refused[0].name}", status=409)
    return committed_json(await read_group(node, group_id))


async def resolve(
    node: Node, group: GroupView, to: str | int, topic: str | None, partitions: Sequence[Any] | None
) -> list[tuple[PartitionKey, int]]:
    """The offset for each partition. An offset is taken as it is, even one that does not exist.

    A time stands for the first record of that time or later, or the end if there is none. Raises ControlError, also if
    one of the offsets is not known: then none is reset.
    """
    target = _target(to)
    known = list(group.offsets) or list(await read_share_offsets(node, group))
    found = await read_partitions(node, _keys(node, group, known, topic, partitions))
    if isinstance(target, int):
        return [(key, target) for key in found]
    silent = [f"{one.name}: {one.unknown}" for one in found.values() if one.unknown]
    if silent:
        raise _unknown(silent)
    if target == EARLIEST:
        return [(key, one.start) for key, one in found.items()]
    if isinstance(target, datetime):
        return await _at_time(node, found, int(target.timestamp() * 1000))
    return [(key, one.end) for key, one in found.items()]


def _target(to: str | int) -> Target:
    if isinstance(to, str) and to in (EARLIEST, LATEST):
        return to
    error = ControlError(f"to = {to!r}: {ACCEPTED}", parameter="to")
    try:
        offset = int(to)
    except ValueError:
        return time_of(str(to), error)
    if offset < 0:
        raise error
    return offset


async def start_share_group(node: Node, group_id: str, offsets: Sequence[tuple[PartitionKey, int]]) -> dict[str, Any]:
    """Let a share group without members start at these offsets, as AlterShareGroupOffsets does. Raises KafkaError."""
    groups, topics = node.coordinators.groups, node.cluster.cache.image.topics
    epoch = await groups.read(group_id, lambda state: begin_altering(state.groups.modern, group_id))
    altered: dict[UUID, TopicPartitions] = {}
    told = []
    for (name, index), offset in offsets:
        topic = topics.get(name)
        if topic is None:
            continue
        await node.local.share.states.initialize_at(SharePartitionKey(group_id, topic.id, index), epoch, offset)
        altered = joined(altered, {topic.id: TopicPartitions(name, frozenset({index}))})
        told.append({"topic": name, "partition": index, "offset": offset})
    await groups.write(group_id, lambda state: note_altered(state.groups.modern, group_id, altered))
    return {"group": group_id, "partitions": told}


def _keys(
    node: Node,
    group: GroupView,
    known: list[PartitionKey],
    topic: str | None,
    partitions: Sequence[Any] | None,
) -> list[PartitionKey]:
    if topic is not None:
        return [(topic, index) for index in _indexes(node, topic, partitions)]
    if partitions is not None:
        raise ControlError("topic is missing: partitions are those of a topic", parameter="topic")
    if not known:
        raise ControlError(
            f"topic is missing: group {group.group_id} has no committed offsets that would name one",
            parameter="topic",
        )
    return known


def _indexes(node: Node, topic: str, partitions: Sequence[Any] | None) -> list[int]:
    image = node.cluster.cache.topic(topic)
    if image is None:
        raise ControlError(f"topic = {topic!r}: there is no such topic", parameter="topic", status=404)
    count = image.partition_count
    if partitions is None:
        return list(range(count))
    try:
        indexes = [int(index) for index in partitions]
    except (TypeError, ValueError):
        indexes = [-1]
    if not all(0 <= index < count for index in indexes):
        raise ControlError(
            f"partitions = {list(partitions)!r}: expected some of 0 to {count - 1} of {topic}", parameter="partitions"
        )
    return indexes


async def _at_time(
    node: Node, partitions: Mapping[PartitionKey, PartitionView], wall_ms: int
) -> list[tuple[PartitionKey, int]]:
    by_leader: dict[int, list[PartitionKey]] = {}
    for key, one in partitions.items():
        by_leader.setdefault(one.leader, []).append(key)
    asked = [offsets_at_time(node, leader, keys, wall_ms) for leader, keys in by_leader.items()]
    told = {key: offset for several in await asyncio.gather(*asked) for key, offset in several.items()}
    silent = [f"{partitions[key].name}: {one.why}" for key, one in told.items() if isinstance(one, Unknown)]
    if silent:
        raise _unknown(silent)
    found = {key: offset for key, offset in told.items() if isinstance(offset, int)}
    return [(key, one.end if found[key] == NONE else found[key]) for key, one in partitions.items()]


def _unknown(silent: Sequence[str]) -> ControlError:
    return ControlError(f"no offset was reset, as not all are known ({'; '.join(silent)})", status=503)


End = Callable[[SharePartition, Collection[str] | None, int | None], tuple[int, Future[None]]]


@ENDPOINTS(
    "GET /groups/{group}/deliveries",
    "What a share group has in flight in the partitions that this broker leads, and its share sessions here.",
    GROUP,
)
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


@ENDPOINTS("POST /groups/{group}/release", "Release acquired records of a share group, as their consumer can.", *WHICH)
async def _release(node: Node, values: Values) -> dict[str, Any]:
    return {"released": await _end(node, values, SharePartition.release)}


@ENDPOINTS(
    "POST /groups/{group}/expire_locks",
    "End acquisition locks of a share group now, as share.record.lock.duration.ms does.",
    *WHICH,
)
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
        raise no_such_member(group, name, "a member id or a client id")
    return ids


async def _share_group(node: Node, group_id: str) -> GroupView:
    group = await read_group(node, group_id)
    if not group.exists:
        raise no_such_group(group_id)
    if not group.is_share:
        raise ControlError(
            f"group = {group_id!r}: a {group.protocol} group commits offsets; only share groups acquire records",
            parameter="group",
            status=409,
        )
    return group
