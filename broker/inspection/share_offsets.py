"""Where a share group starts in its partitions, and how much after that is done, as its share coordinator has it.

The lag is Kafka's (KIP-1226): what follows the start offset, but for the records whose delivery is complete. Kafka
knows no lag before the first state is written; here the share partition that is loaded tells it, if this node leads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kio.schema.describe_share_group_offsets.v1 import DescribeShareGroupOffsetsRequest
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup

from broker.inspection.groups import GroupView
from broker.inspection.share_groups import initialized, is_share
from broker.node import Node
from broker.peers.leaders import NotServedError, ask, check
from protocol.coordinator_records.share_records import (
    NO_START_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareSnapshotValue,
)
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey

FIRST_WITH_LAG = 1
NO_LAG = -1


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """All records before `start` are done, and `complete` of those after it; None if it is not known.

    `told` is the lag as the coordinator on another broker tells it, None if this node is the coordinator.
    """

    start: int | None = None
    complete: int | None = None
    told: int | None = None

    def lag(self, first: int, end: int) -> int | None:
        """The records that are not done, of a log with this first offset and this end; None if it is not known."""
        if self.told is not None:
            return self.told
        if self.start is None or self.complete is None:
            return 0 if first == end else None
        return end - self.start - self.complete


async def read_share_offsets(node: Node, group: GroupView) -> dict[PartitionKey, ShareOffset]:
    """By partition that has a state; nothing for a group of another kind. Raises KafkaError."""
    if not is_share(group):
        return {}
    if group.coordinator is not None:
        return await _told(node, group.coordinator, group.group_id)
    topics = node.cluster.cache.image.topics
    by_key = {
        SharePartitionKey(group.group_id, topic.id, index): (name, index)
        for name, index in await initialized(node, group.group_id)
        if (topic := topics.get(name)) is not None
    }
    found = await node.local.share.states.summaries(by_key)
    return {by_key[key]: _offset(node, key, state) for key, state in found.items()}


def _offset(node: Node, key: SharePartitionKey, state: ShareSnapshotValue | KafkaError | None) -> ShareOffset:
    if (
        isinstance(state, ShareSnapshotValue)
        and state.start_offset != NO_START_OFFSET
        and state.complete_count != UNKNOWN_COUNT
    ):
        return ShareOffset(state.start_offset, state.complete_count)
    loaded = node.local.share.get(key)
    return ShareOffset() if loaded is None else ShareOffset(loaded.start_offset, loaded.complete_count)


async def _told(node: Node, broker_id: int, group_id: str) -> dict[PartitionKey, ShareOffset]:
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(wanted,))
    try:
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=FIRST_WITH_LAG)
    except NotServedError:
        return {}
    (group,) = answer.groups
    check(broker_id, group.error_code)
    return {
        (topic.topic_name, one.partition_index): _as_told(one) for topic in group.topics for one in topic.partitions
    }


def _as_told(one: Any) -> ShareOffset:
    start = None if one.start_offset == NO_START_OFFSET else one.start_offset
    return ShareOffset(start, None, None if one.lag == NO_LAG else one.lag)
