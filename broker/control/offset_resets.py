"""Where a group is to read on: the offsets that a reset stands for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from broker.control.endpoint import ControlError
from broker.inspection.groups import GroupView
from broker.node import Node
from broker.replicas.partition import Partition
from protocol.topic_partition import PartitionKey
from storage.log import time_lookup

EARLIEST, LATEST = "earliest", "latest"
ACCEPTED = "expected earliest, latest, an offset from 0 on, or a time such as 2026-11-27T04:00:00Z"

Target = str | int | datetime


async def resolve(
    node: Node, group: GroupView, to: str | int, topic: str | None, partitions: Sequence[Any] | None
) -> list[tuple[PartitionKey, int]]:
    """The offset for each partition. An offset is taken as it is, even one that does not exist.

    A time stands for the first record of that time or later, or the end if there is none. Raises ControlError.
    """
    target = _target(to)
    return [(one.key, await _offset(one, target)) for one in _partitions(node, group, topic, partitions)]


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


def _partitions(node: Node, group: GroupView, topic: str | None, partitions: Sequence[Any] | None) -> list[Partition]:
    if topic is None:
        if partitions is not None:
            raise ControlError("topic is missing: partitions are those of a topic", parameter="topic")
        keys = list(group.offsets)
        if not keys:
            raise ControlError(
                f"topic is missing: group {group.group_id} has no committed offsets that would name one",
                parameter="topic",
            )
    else:
        keys = [(topic, index) for index in _indexes(node, topic, partitions)]
    found = [node.replicas.get(*key) for key in keys]
    return [partition for partition in found if partition is not None]


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


async def _offset(partition: Partition, target: Target) -> int:
    if isinstance(target, int):
        return target
    if target == EARLIEST:
        return partition.log_start_offset
    if isinstance(target, datetime):
        found = await time_lookup.first_at_or_after(partition.log, int(target.timestamp() * 1000))
        if found is not None and found.offset < partition.high_watermark:
            return found.offset
    return partition.high_watermark
