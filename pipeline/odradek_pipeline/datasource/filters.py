"""The bounds that Spark's filters (pyspark 4.1 and later) set for topic, partition, offset and timestamp.

Spark still applies every filter. Here they only save reading what cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from odradek_pipeline.datasource.offsets import OffsetRange, offset_for_timestamp
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from odradek_pipeline.protocol.topic_partition import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The records that may pass: None is anything, offsets are [least, end), `oldest` is milliseconds since 1970."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    least_offset: int = 0
    end_offset: int = 2**63 - 1
    oldest: int | None = None

    def narrowed(self, kind: str, column: str, value: Any) -> ReadBounds:
        """The ranges with one more filter, named as PySpark's classes are."""
        values = frozenset([value]) if kind == "EqualTo" else frozenset(value) if kind == "In" else None
        if column == "topic" and values is not None:
            return replace(self, topics=values if self.topics is None else self.topics & values)
        if column == "partition" and values is not None:
            return replace(self, partitions=values if self.partitions is None else self.partitions & values)
        if column == "offset":
            return self._by_offset(kind, value)
        if column == "timestamp" and kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
            oldest = _millis(value)
            return replace(self, oldest=oldest if self.oldest is None else max(self.oldest, oldest))
        return self

    def _by_offset(self, kind: str, value: Any) -> ReadBounds:
        least, end = self.least_offset, self.end_offset
        match kind:
            case "EqualTo":
                least, end = max(least, value), min(end, value + 1)
            case "In":
                known = [each for each in value if each is not None]  # nothing is equal to null
                least, end = max(least, min(known, default=end)), min(end, max(known, default=least - 1) + 1)
            case "GreaterThan":
                least = max(least, value + 1)
            case "GreaterThanOrEqual":
                least = max(least, value)
            case "LessThan":
                end = min(end, value)
            case "LessThanOrEqual":
                end = min(end, value + 1)
        return replace(self, least_offset=least, end_offset=end)

    def wants(self, partition: TopicPartition) -> bool:
        """Whether records of a partition may pass."""
        if self.topics is not None and partition.topic not in self.topics:
            return False
        return self.partitions is None or partition.partition in self.partitions


def _millis(moment: datetime) -> int:
    """The milliseconds, rounded down."""
    aware = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // (datetime.resolution * 1000)


class PushdownReader(OdradekReader):
    """With option `filterPushdown`: a reader with `pushFilters` needs spark.sql.python.filterPushdown.enabled."""

    def __init__(self, options: SourceOptions, names: Iterable[str]) -> None:
        super().__init__(options, tuple(names))
        self.bounds = ReadBounds()

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Use what each filter says; return all of them, for Spark to apply."""
        for each in filters:
            match each:
                case object(attribute=(column,), value=value):
                    self.bounds = self.bounds.narrowed(type(each).__name__, column, value)
        return filters

    def restrict(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Raises OSError, CorruptLogError."""
        bounds = self.bounds
        narrowed = []
        for each in ranges:
            if not bounds.wants(each.state.home.partition):
                continue
            start, end = max(each.start, bounds.least_offset), min(each.end, bounds.end_offset)
            if bounds.oldest is not None and start < end:
                start = max(start, offset_for_timestamp(each.state, bounds.oldest))
            if start < end:
                narrowed.append(OffsetRange(each.state, start, end))
        return narrowed
