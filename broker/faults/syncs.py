"""What a request has written, brought to the device: for faults that strike after that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.coordinators.share_coordinator import coordinator_key
from broker.replicas.partition import Role
from metadata.topic_names import (
    GROUP_METADATA_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from protocol.coordinator_records.share_records import SharePartitionKey

if TYPE_CHECKING:
    from broker.faults.facts import Facts
    from broker.replicas.partition import Partition
    from broker.request_context import RequestContext
    from protocol.api.row import Api
    from timing.clock import Clock

LOOK_MS = 1.0
"""How often it is looked whether a flush is over. Only requests that a fault has struck wait for that."""


def written(api: Api, ctx: RequestContext, facts: Facts) -> Iterator[Partition]:
    """The partitions to whose logs a request appends."""
    keys: list[tuple[str | None, int | None]] = []
    match api.writes:
        case "topic":
            keys = facts.partitions or []
        case "group":
            groups = ctx.coordinators.groups
            keys = [(GROUP_METADATA_TOPIC_NAME, groups.partition_for(group)) for group in facts.groups]
        case "transaction":
            transactions = ctx.coordinators.transactions
            names = facts.transactional_ids
            keys = [(TRANSACTION_STATE_TOPIC_NAME, transactions.partition_for(name)) for name in names]
        case "share":
            keys = [(SHARE_GROUP_STATE_TOPIC_NAME, index) for index in _share_states(ctx, facts)]
    for topic, index in keys:
        found = None if topic is None or index is None else ctx.replicas.get(topic, index)
        if found is not None:
            yield found


def _share_states(ctx: RequestContext, facts: Facts) -> set[int]:
    """The partitions of the share coordinator with the states of these groups' partitions."""
    topics = [(ctx.image.topics.get(name), index) for name, index in facts.partitions or () if name is not None]
    keys = [
        SharePartitionKey(group, topic.id, index)
        for group in facts.groups
        for topic, index in topics
        if topic is not None and index is not None
    ]
    return {ctx.coordinators.share.partition_for(coordinator_key(key)) for key in keys}


async def synced(partitions: Iterable[Partition], clock: Clock) -> None:
    """Flush the logs, and wait until what they have now is on the device, or they are led here no more."""
    await asyncio.gather(*(_synced(partition, clock) for partition in partitions))


async def _synced(partition: Partition, clock: Clock) -> None:
    log = partition.log
    end = log.log_end_offset
    log.flush()
    while log.flushed.offset < end and partition.role is Role.LEADER:
        await clock.sleep(LOOK_MS)
