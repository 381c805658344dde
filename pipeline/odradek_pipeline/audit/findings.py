"""What an audit found in a partition: counts that are exact, and ranges of offsets, of which only so many are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odradek_pipeline.audit.prints import Longs

MOST_RANGES = 1_000
"""Ranges that are kept of one kind in one partition; what comes after is only counted."""


@dataclass(slots=True)
class Ranges:
    """Offsets in the order in which they are added; neighbours are one range."""

    count: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    cut: bool = False

    def add(self, offsets: Longs) -> None:
        """More offsets, each once, in ascending order."""
        if not len(offsets):
            return
        breaks = np.flatnonzero(np.diff(offsets) != 1)
        firsts = np.concatenate(([0], breaks + 1))
        lasts = np.concatenate((breaks, [len(offsets) - 1]))
        for first, last in zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True):
            self.add_range(first, last)

    def add_range(self, first: int, last: int) -> None:
        """All offsets from `first` to `last`."""
        self.count += last - first + 1
        if self.ranges and self.ranges[-1][1] == first - 1 and not self.cut:
            self.ranges[-1] = self.ranges[-1][0], last
        elif len(self.ranges) < MOST_RANGES:
            self.ranges.append((first, last))
        else:
            self.cut = True

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"count": self.count, "ranges": [list(pair) for pair in self.ranges]}
        return found | ({"ranges_cut_at": MOST_RANGES} if self.cut else {})


FAULTS = ("missing", "twice", "extra", "aborted_in_table", "markers_in_table", "different")
"""The findings that make an audit fail; all the others are told."""
TOLD = ("gone", "holes", "compacted", "damaged")
"""Findings of a table that is whole. With the damage itself, which is the topic's, the audit fails."""


@dataclass(slots=True)
class Findings:
    """One partition.

    Attributes:
        start, end: the topic's offsets [start, end): from its log start to its last stable offset.
        until: the audit is of offsets below this one; records behind it are `waiting` for the table's next batch.
        records, rows: the topic's committed records that were compared, and the table's rows of the partition.
        missing: records that the table lacks. twice: offsets that it has more than once. different: rows that are not
            like their record; `columns` counts them by what differs.
        extra: rows beyond the end of the topic, or of a partition that it has not.
        aborted_in_table, markers_in_table: rows with an offset of an aborted record, or of a transaction's marker.
        aborted, markers: the topic's own, which no table should have.
        gone: the table's rows whose records the topic has no more, by retention. holes: offsets before the topic's
            start that the table lacks as well: markers, aborted records, or records that were lost for both.
        compacted: rows whose records the topic has no more, by compaction. damaged: rows whose records may be in
            batches of the topic that cannot be read.
        not_compared: cells of parsed values about which nothing can be said.
    """

    partition: int
    start: int = 0
    end: int = 0
    until: int = 0
    records: int = 0
    rows: int = 0
    missing: Ranges = field(default_factory=Ranges)
    twice: Ranges = field(default_factory=Ranges)
    extra: Ranges = field(default_factory=Ranges)
    aborted_in_table: Ranges = field(default_factory=Ranges)
    markers_in_table: Ranges = field(default_factory=Ranges)
    different: Ranges = field(default_factory=Ranges)
    columns: dict[str, int] = field(default_factory=dict)
    aborted: int = 0
    markers: int = 0
    gone: Ranges = field(default_factory=Ranges)
    holes: Ranges = field(default_factory=Ranges)
    compacted: Ranges = field(default_factory=Ranges)
    damaged: Ranges = field(default_factory=Ranges)
    not_compared: int = 0

    @property
    def faults(self) -> int:
        """Offsets with something wrong."""
        return sum(getattr(self, name).count for name in FAULTS)

    def to_json(self) -> dict[str, Any]:
        ranges = (*FAULTS, *TOLD)
        numbers = ("partition", "start", "end", "until", "records", "rows", "aborted", "markers", "not_compared")
        found = {name: getattr(self, name) for name in numbers}
        found["waiting"] = max(0, self.end - max(self.start, self.until))
        found |= {name: getattr(self, name).to_json() for name in ranges}
        found["different"]["columns"] = dict(sorted(self.columns.items()))
        return found | {"ok": not self.faults}
