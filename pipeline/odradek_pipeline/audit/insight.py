"""What a topic is like: throughput, skew, hot keys, and the lag of consumer groups over time.

The topic is read once. Times are counted in at most some hundred buckets, which become wider when they are too many,
and keys by a summary of the frequent ones (Misra and Gries), so the memory does not depend on the topic's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek_pipeline.audit.groups import commit_of
from odradek_pipeline.audit.prints import Longs
from odradek_pipeline.audit.sides import Topic
from odradek_pipeline.protocol.records.build import Record

MOST_BUCKETS = 400
FIRST_WIDTH_MS = 1_000
KEYS = 10_000
KEY_BYTES = 256
"""Of a key that are kept; longer ones with the same beginning count as one."""
SHOWN_KEYS = 100
DEAD_AFTER_MS = 3_600_000


class Timeline:
    """Numbers by row (as a partition) and time; of what falls into one bucket, `merge` makes one."""

    def __init__(self, merge: Callable[[Any, Any], Any]) -> None:
        self.width = FIRST_WIDTH_MS
        self.rows: dict[Any, dict[int, Any]] = {}
        self._merge = merge
        self._buckets: set[int] = set()

    def add(self, row: Any, millis: int, value: Any) -> None:
        """A value at a time (ms). Those of one row come in their order."""
        bucket = millis // self.width
        of_row = self.rows.setdefault(row, {})
        known = of_row.get(bucket)
        of_row[bucket] = value if known is None else self._merge(known, value)
        self._buckets.add(bucket)
        while len(self._buckets) > MOST_BUCKETS:
            self._widen()

    def _widen(self) -> None:
        self.width *= 2
        for row, cells in self.rows.items():
            wider: dict[int, Any] = {}
            for bucket, value in cells.items():
                known = wider.get(bucket // 2)
                wider[bucket // 2] = value if known is None else self._merge(known, value)
            self.rows[row] = wider
        self._buckets = {bucket // 2 for bucket in self._buckets}


class HotKeys:
    """The frequent keys: each count is too low by `error` at most, and a key that is not there is not more frequent."""

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        self.error = 0

    def add(self, keys: pa.Array) -> None:
        """Keys; null is none."""
        found = pc.value_counts(keys.drop_null())
        values, counts = found.field("values").to_pylist(), found.field("counts").to_pylist()
        for key, count in zip(values, counts, strict=True):
            short = key[:KEY_BYTES]
            self.counts[short] = self.counts.get(short, 0) + count
        if len(self.counts) > 2 * KEYS:
            least = sorted(self.counts.values(), reverse=True)[KEYS]
            self.error += least
            self.counts = {key: count - least for key, count in self.counts.items() if count > least}

    def top(self) -> list[tuple[bytes, int]]:
        return sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_KEYS]


@dataclass(slots=True)
class Group:
    """A group's last commit (ms), its lag at the topic's end, and whether it is dead: it lags and commits no more."""

    name: str
    last_commit: int
    lag: int
    dead: bool = False


@dataclass(slots=True)
class Insight:
    """What was found. Times are milliseconds; `throughput` has (records, bytes, last offset), `lag` offsets."""

    topic: str
    partitions: list[dict[str, int]] = field(default_factory=list)
    throughput: Timeline = field(default_factory=lambda: Timeline(_joined))
    commits: Timeline = field(default_factory=lambda: Timeline(lambda _, later: later))
    keys: HotKeys = field(default_factory=HotKeys)
    groups: list[Group] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(one["records"] for one in self.partitions)

    @property
    def skew(self) -> float:
        """The bytes of the largest partition, by the mean of all."""
        sizes = [one["bytes"] for one in self.partitions]
        return max(sizes, default=0) * len(sizes) / (sum(sizes) or 1)

    def to_json(self) -> dict[str, Any]:
        total = self.records or 1
        return {
            "records": self.records,
            "skew": round(self.skew, 3),
            "partitions": self.partitions,
            "keys": [
                {"key": key.decode(errors="replace"), "count": count, "share": round(count / total, 4)}
                for key, count in self.keys.top()
            ],
            "keys_counted_too_low_by": self.keys.error,
            "groups": [
                {"group": one.name, "last_commit": one.last_commit, "lag": one.lag, "dead": one.dead}
                for one in self.groups
            ],
        }

    def lag(self) -> Iterator[tuple[str, int, int, int, int]]:
        """(group, partition, time, committed offset, lag) at the end of each bucket in which a group has committed."""
        ends = {number: _rising(cells) for number, cells in self.throughput.rows.items()}
        for (group, number), cells in sorted(self.commits.rows.items()):
            buckets, offsets = ends.get(number, (np.empty(0, np.int64), np.empty(0, np.int64)))
            for bucket, committed in sorted(cells.items()):
                time = (bucket + 1) * self.commits.width
                at = int(np.searchsorted(buckets * self.throughput.width, time, side="left")) - 1
                end = int(offsets[at]) + 1 if at >= 0 else 0
                yield group, number, time, committed, max(0, end - committed)


def look_at(topic: Topic, offsets: Topic | None, progress: Callable[[int], None] = lambda _: None) -> Insight:
    """Read a topic, and what `offsets` (`__consumer_offsets`) has of it. Raises AuditError."""
    found = Insight(topic.name)
    for number, extent in sorted(topic.extents().items()):
        row = {"partition": number, "start": extent.start, "end": extent.end, "records": 0, "bytes": 0, "aborted": 0}
        for part in topic.read(number, extent.start, extent.end, ("key", "value", "timestamp")):
            row["aborted"] += len(part.aborted)
            if part.records.num_rows:
                row["records"] += part.records.num_rows
                row["bytes"] += _see(found, number, part.records)
                progress(part.records.num_rows)
        found.partitions.append(row)
    if offsets is not None:
        _see_groups(found, topic.name, offsets)
    return found


def _see(found: Insight, number: int, records: pa.RecordBatch) -> int:
    """Count some records of a partition; their bytes."""
    found.keys.add(records.column("key"))
    sizes = np.zeros(records.num_rows, np.int64)
    for name in ("key", "value"):
        sizes += pc.binary_length(records.column(name)).fill_null(0).to_numpy(zero_copy_only=False)
    millis = records.column("timestamp").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1000
    offsets: Longs = records.column("offset").to_numpy()
    buckets, at = np.unique(millis // found.throughput.width, return_inverse=True)
    counts, weights = np.bincount(at), np.bincount(at, sizes).astype(np.int64)
    last = np.zeros(len(buckets), np.int64)
    np.maximum.at(last, at, offsets)
    width = found.throughput.width  # which may change meanwhile
    for bucket, *numbers in zip(*(cells.tolist() for cells in (buckets, counts, weights, last)), strict=True):
        found.throughput.add(number, bucket * width, tuple(numbers))
    return int(sizes.sum())


def _see_groups(found: Insight, topic: str, offsets: Topic) -> None:
    last: dict[str, int] = {}
    for number, extent in offsets.extents().items():
        for part in offsets.read(number, extent.start, extent.end, ("key", "value", "timestamp")):
            columns = (part.records.column(name).to_pylist() for name in ("offset", "key", "value"))
            times = part.records.column("timestamp").cast(pa.int64()).fill_null(0).to_pylist()
            for micros, offset, key, value in zip(times, *columns, strict=True):
                commit = commit_of(Record(offset, micros // 1000, key, value))
                if commit is None or commit.topic != topic:
                    continue
                row = commit.group, commit.partition
                if commit.offset is None:
                    found.commits.rows.pop(row, None)
                    continue
                found.commits.add(row, commit.timestamp, commit.offset)
                last[commit.group] = max(last.get(commit.group, 0), commit.timestamp)
    _judge(found, last)


def _judge(found: Insight, last: Mapping[str, int]) -> None:
    """The groups: those with a lag that have not committed in the topic's last hour are dead."""
    ends = {one["partition"]: one["end"] for one in found.partitions}
    starts = {one["partition"]: one["start"] for one in found.partitions}
    lags: dict[str, int] = {}
    for (group, number), cells in found.commits.rows.items():
        committed = max(cells[max(cells)], starts.get(number, 0))
        lags[group] = lags.get(group, 0) + max(0, ends.get(number, 0) - committed)
    times = [(max(cells) + 1) * found.throughput.width for cells in found.throughput.rows.values() if cells]
    newest = max([*times, *last.values()], default=0)
    for group, lag in sorted(lags.items()):
        dead = lag > 0 and newest - last[group] > DEAD_AFTER_MS
        found.groups.append(Group(group, last[group], lag, dead))


def _joined(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])


def _rising(cells: Mapping[int, tuple[int, int, int]]) -> tuple[Longs, Longs]:
    """Buckets in their order, and the highest offset up to each."""
    buckets = np.array(sorted(cells), np.int64)
    return buckets, np.maximum.accumulate(np.array([cells[bucket][2] for bucket in buckets.tolist()], np.int64))
