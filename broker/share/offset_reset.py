"""Where a share group begins to read a partition (`share.auto.offset.reset`, KIP-932, KIP-1106)."""

from __future__ import annotations

from broker.config.resource_defs import duration_ms
from broker.replicas.partition import Partition
from protocol.errors import OffsetNotAvailable
from storage.log import time_lookup


async def first_offset(partition: Partition, reset: str, now_ms: int) -> int:
    """The offset for `earliest`, `latest` or `by_duration:<ISO 8601 duration>`.

    Raises OffsetNotAvailable if no record is as young as the duration says, KafkaError and OSError.
    """
    kind, _, duration = reset.partition(":")
    if kind == "earliest":
        return partition.log_start_offset
    if kind == "by_duration":
        found = await time_lookup.first_at_or_after(partition.log, now_ms - duration_ms(duration))
        if found is None or found.offset >= partition.high_watermark:
            raise OffsetNotAvailable
        return max(found.offset, partition.log_start_offset)
    return partition.high_watermark
