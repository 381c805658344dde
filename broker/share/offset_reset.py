"""Where a share group begins to read a partition (`share.auto.offset.reset`, KIP-932, KIP-1106)."""

from __future__ import annotations

import re

from broker.replication.partition import Partition
from protocol.errors import OffsetNotAvailable
from storage.log import time_lookup

_DURATION = re.compile(
    r"(?i)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d*)?)S)?)?"
)
_MS_OF = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


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


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days, hours, minutes and seconds, in ms."""
    found = _DURATION.fullmatch(text)
    assert found is not None, "the configuration was checked when it was set"
    return int(sum(float(number) * _MS_OF[unit] for unit, number in found.groupdict().items() if number))
