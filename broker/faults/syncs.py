"""What a request has written, brought to the device: for faults that strike after that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.faults.checks import GROUP_WRITERS, TRANSACTION_WRITERS
from broker.replication.partition import Role
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME

if TYPE_CHECKING:
    from broker.faults.facts import Facts
    from broker.replication.partition import Partition
    from broker.request_context import RequestContext
    from timing.clock import Clock

LOOK_MS = 1.0
"""How often it is looked whether a flush is over. Only requests that a fault has struck wait for that."""


def written(api: str, ctx: RequestContext, facts: Facts) -> Iterator[Partition]:
    """The partitions to whose logs a request appends."""
    keys: list[tuple[str | None, int | None]] = []
    if api == "produce":
        keys = facts.partitions or []
    elif api in GROUP_WRITERS:
        groups = ctx.coordinators.groups
        keys = [(GROUP_METADATA_TOPIC_NAME, groups.partition_for(group)) for group in facts.groups]
    elif api in TRANSACTION_WRITERS:
        transactions = ctx.coordinators.transactions
        keys = [
            (TRANSACTION_STATE_TOPIC_NAME, transactions.partition_for(transactional_id))
            for transactional_id in facts.transactional_ids
        ]
    for topic, index in keys:
        found = None if topic is None or index is None else ctx.replicas.get(topic, index)
        if found is not None:
            yield found


async def synced(partitions: Iterable[Partition], clock: Clock) -> None:
    """Flush the logs, and wait until what they have now is on the device, or they are led here no more."""
    await asyncio.gather(*(_synced(partition, clock) for partition in partitions))


async def _synced(partition: Partition, clock: Clock) -> None:
    log = partition.log
    end = log.log_end_offset
    log.flush()
    while log.flushed.offset < end and partition.role is Role.LEADER:
        await clock.sleep(LOOK_MS)
