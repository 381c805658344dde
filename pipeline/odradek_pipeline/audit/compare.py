"""The exact comparison of some blocks of offsets: the topic's records against the table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odradek_pipeline.audit.findings import Findings
from odradek_pipeline.audit.prints import UNSURE, Longs, Prints

NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Records:
    """The topic's side: offsets ascend; the prints by column. `bytes_of` has the prints of values that are parsed."""

    offsets: Longs = field(default_factory=lambda: NONE)
    prints: Mapping[str, Prints] = field(default_factory=dict)
    bytes_of: Prints | None = None
    aborted: Longs = field(default_factory=lambda: NONE)
    markers: Longs = field(default_factory=lambda: NONE)
    damaged: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class Rows:
    """The table's side, in any order. `raw` marks the rows of dead letters, whose value is the bytes."""

    offsets: Longs = field(default_factory=lambda: NONE)
    prints: Mapping[str, Prints] = field(default_factory=dict)
    raw: NDArray[np.bool_] | None = None

    def where(self, wanted: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        prints = {name: column[wanted] for name, column in self.prints.items()}
        return Rows(self.offsets[wanted], prints, None if self.raw is None else self.raw[wanted])


def compare(records: Records, rows: Rows, into: Findings) -> None:
    """Add what the rows of some offsets are against the records of the same offsets, both complete.

    No row is before the topic's start: about these nothing can be said here.
    """
    found, times = np.unique(rows.offsets, return_counts=True)
    into.twice.add(found[times > 1])
    into.missing.add(np.setdiff1d(records.offsets, found, assume_unique=True))
    _unexpected(np.setdiff1d(found, records.offsets, assume_unique=True), records, into)
    place = np.searchsorted(records.offsets, rows.offsets)
    place[place == len(records.offsets)] = 0
    known = records.offsets[place] == rows.offsets if len(records.offsets) else np.zeros(len(rows.offsets), np.bool_)
    wrong: list[Longs] = []
    for name, of_rows in rows.prints.items():
        expected, unsure = records.prints[name][place[known]], np.zeros(int(known.sum()), np.bool_)
        if name == "value" and records.bytes_of is not None:
            raw = rows.raw[known] if rows.raw is not None else np.zeros(int(known.sum()), np.bool_)
            unsure = (expected == UNSURE) & ~raw
            expected = np.where(raw, records.bytes_of[place[known]], expected)
        bad = (expected != of_rows[known]) & ~unsure
        into.not_compared += int(unsure.sum())
        if bad.any():
            offsets = np.unique(rows.offsets[known][bad])
            into.columns[name] = into.columns.get(name, 0) + len(offsets)
            wrong.append(offsets)
    if wrong:
        into.different.add(np.unique(np.concatenate(wrong)))


def _unexpected(offsets: Longs, records: Records, into: Findings) -> None:
    """Rows without a record: why there is none."""
    inside = (offsets >= 0) & (offsets < into.end)
    aborted, marker = np.isin(offsets, records.aborted), np.isin(offsets, records.markers)
    into.extra.add(offsets[~inside])
    into.aborted_in_table.add(offsets[inside & aborted])
    into.markers_in_table.add(offsets[inside & marker & ~aborted])
    damaged = np.zeros(len(offsets), np.bool_)
    for first, end in records.damaged:
        damaged |= (offsets >= first) & (offsets < end)
    into.damaged.add(offsets[inside & ~aborted & ~marker & damaged])
    into.compacted.add(offsets[inside & ~aborted & ~marker & ~damaged])
