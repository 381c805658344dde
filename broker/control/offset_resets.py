"""Where a group is to read on: the offsets that a reset stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from broker.control.endpoint import ControlError
from broker.inspection.groups import GroupView
from broker.inspection.partitions import PartitionView, offsets_at_time, read_partitions
from broker.inspection.share_offsets import read_share_offsets
from broker.node import Node
from broker.peers.leaders import NONE, Unknown
from coordinator.group.share.initialization import joined
from coordinator.group.share_offsets import begin_altering, note_altered
from protocol.coordinator_records.share_records import SharePartitionKey, TopicPartitions
from protocol.topic_partition import PartitionKey

EARLIEST, LATEST = "earliest", "latest"
ACCEPTED = "expected earliest, latest, an offset from 0 on, or a time such as 2026-11-27T04:00:00Z"

Target = str | int | datetime


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
    try:
        offset = int(to)
    except ValueError:
        return _time(str(to))
    if offset < 0:
        raise ControlError(f"to = {to!r}: {ACCEPTED}", parameter="to")
    return offset


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ControlError(f"to = {text!r}: {ACCEPTED}", parameter="to") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def start_share_group(node: Node, group_id: str, offsets: Sequence[tuple[PartitionKey, int]]) -> dict[str, Any]:
    """Let a share group without members start at these offsets, as AlterShareGroupOffsets does. Raises KafkaError."""
    groups, topics = node.coordinators.groups, node.cluster.cache.image.topics
    epoch = await groups.read(group_id, lambda state: begin_altering(state.groups, group_id))
    altered: dict[UUID, TopicPartitions] = {}
    told = []
    for (name, index), offset in offsets:
        topic = topics.get(name)
        if topic is None:
            continue
        await node.local.share.states.initialize_at(SharePartitionKey(group_id, topic.id, index), epoch, offset)
        altered = joined(altered, {topic.id: TopicPartitions(name, frozenset({index}))})
        told.append({"topic": name, "partition": index, "offset": offset})
    await groups.write(group_id, lambda state: note_altered(state.groups, group_id, altered))
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
