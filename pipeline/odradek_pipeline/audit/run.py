"""The audit of a topic against a table or another topic, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from odradek_pipeline.audit.compare import NONE, Records, Rows, compare
from odradek_pipeline.audit.digests import BLOCK, Digests
from odradek_pipeline.audit.findings import Findings
from odradek_pipeline.audit.prints import Longs, Prints, combined, longs, prints_of
from odradek_pipeline.audit.sides import COMPARED, Extent, Part, Table, Topic
from odradek_pipeline.audit.values import ParsedValues

MOST_BLOCKS = 512
"""Blocks that are compared record by record at once: half a million rows, and some 50 bytes for each."""


@dataclass(slots=True)
class Audit:
    """A topic, and the tables that have its records: the table itself, and the dead letters of a parsed one.

    `until` are the ends of the newest committed batch, where they are known. `columns` are those to compare.
    """

    topic: Topic
    table: Table
    dead_letters: Table | None = None
    until: Mapping[int, int] | None = None
    columns: Sequence[str] = COMPARED
    progress: Callable[[int], None] = lambda _: None
    _parsed: ParsedValues | None = field(init=False, default=None)
    _names: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        known = self.table.columns()
        self._names = [name for name in self.columns if name in known]
        if "key" in known and pa.types.is_struct(known["key"]):  # decoded by a registry's schema
            self._names.remove("key")
        if "value" in self._names and pa.types.is_struct(known["value"]):
            self._parsed = ParsedValues(known["value"])

    @property
    def compared(self) -> list[str]:
        """The columns that are compared."""
        return self._names

    def run(self) -> list[Findings]:
        """Read both sides and compare. Raises AuditError."""
        tables: dict[int, Digests] = {}
        for numbers, rows in self._rows():
            for number in np.unique(numbers).tolist():
                own = numbers == number
                prints = {name: column[own] for name, column in rows.prints.items()}
                tables.setdefault(number, Digests()).add(rows.offsets[own], combined(prints, int(own.sum())))
        extents = self.topic.extents()
        return [self._partition(number, extents.get(number), tables) for number in sorted(extents.keys() | tables)]

    # -- the table's side

    def _rows(
        self, partition: int | None = None, start: int | None = None, end: int | None = None, names: Any = None
    ) -> Iterator[tuple[Longs, Rows]]:
        """(partitions, rows) of the table, and of its dead letters."""
        names = self._names if names is None else names
        for batch in self.table.read(names, partition, start, end):
            prints = {name: self._print(batch.column(name), name) for name in names}
            yield longs(batch.column("partition")), Rows(longs(batch.column("offset")), prints)
        if self.dead_letters is None:
            return
        for batch in self.dead_letters.read(names, partition, start, end):
            prints = {name: prints_of(batch.column(name)) for name in names}
            raw = np.ones(batch.num_rows, np.bool_)
            yield longs(batch.column("partition")), Rows(longs(batch.column("offset")), prints, raw)

    def _print(self, cells: pa.Array, name: str) -> Prints:
        parsed = self._parsed if name == "value" else None
        return prints_of(cells) if parsed is None else parsed.of_table(cells)

    # -- the topic's side

    def _records(self, part: Part) -> Records:
        batch = part.records
        offsets = longs(batch.column("offset"))
        prints = {name: prints_of(batch.column(name)) for name in self._names}
        bytes_of = None
        if self._parsed is not None:
            bytes_of, prints["value"] = prints["value"], self._parsed.of_topic(batch.column("value"))
        return Records(offsets, prints, bytes_of, part.aborted, part.markers, part.damaged)

    def _digested(self, records: Records) -> Prints:
        """The prints by which a record is expected in the table: of its bytes, if they could not be parsed."""
        prints = dict(records.prints)
        if records.bytes_of is not None:
            prints["value"] = np.where(prints["value"] == 0, records.bytes_of, prints["value"])
        return combined(prints, len(records.offsets))

    # -- one partition

    def _partition(self, number: int, extent: Extent | None, tables: Mapping[int, Digests]) -> Findings:
        table = tables.get(number, Digests())
        found = Findings(number, rows=table.rows)
        if extent is not None:
            found.start, found.end = extent
        found.until = self._until(number, found, table)
        topic = Digests()
        for part in self.topic.read(number, found.start, found.until, self._names):
            records = self._records(part)
            topic.add(records.offsets, self._digested(records))
            found.aborted += len(part.aborted)
            found.markers += len(part.markers)
            self.progress(len(records.offsets) + len(part.aborted) + len(part.markers))
        found.records = topic.rows
        self._gone(number, found, table)
        gone = range(found.start // BLOCK)
        blocks = (block for block in topic.differing(table) if block not in gone)
        while chosen := list(islice(blocks, MOST_BLOCKS)):
            self._exactly(number, chosen, found)
        return found

    def _until(self, number: int, found: Findings, table: Digests) -> int:
        """Up to the newest committed batch; without one up to the table's last row; all, if it has none."""
        known = None if self.until is None else self.until.get(number)
        if known is None and not table.rows:
            return found.end
        return min(found.end, max(known or 0, table.last + 1))

    def _exactly(self, number: int, blocks: list[int], found: Findings) -> None:
        """Compare some blocks, which ascend, record by record."""
        rows = self._some_rows(number, blocks, self._names)
        rows = rows.where((rows.offsets < 0) | (rows.offsets >= found.start))
        gathered: list[Records] = []
        for first, end in _runs(blocks):
            start, stop = max(first * BLOCK, found.start), min(end * BLOCK, found.until)
            if start < stop:
                gathered += [self._records(part) for part in self.topic.read(number, start, stop, self._names)]
        compare(_joined(gathered, self._names), rows, found)

    def _some_rows(self, number: int, blocks: list[int], names: Sequence[str]) -> Rows:
        parts = []
        wanted = np.array(blocks, np.int64)
        for numbers, rows in self._rows(number, blocks[0] * BLOCK, (blocks[-1] + 1) * BLOCK, names):
            own = (numbers == number) & np.isin(rows.offsets // BLOCK, wanted)
            raw = np.zeros(len(own), np.bool_) if rows.raw is None else rows.raw
            parts.append(Rows(rows.offsets, rows.prints, raw).where(own))
        if not parts:
            return Rows(prints={name: np.empty(0, np.uint64) for name in names})
        offsets = np.concatenate([part.offsets for part in parts])
        prints = {name: np.concatenate([part.prints[name] for part in parts]) for name in names}
        return Rows(offsets, prints, np.concatenate([part.raw for part in parts if part.raw is not None]))

    # -- what the topic has no more

    def _gone(self, number: int, found: Findings, table: Digests) -> None:
        """Count the rows before the topic's start, and look closely at blocks that do not have all of their offsets."""
        whole, rest = divmod(found.start, BLOCK)
        odd = chain(table.not_whole(whole * BLOCK), [whole] if rest and table.count(whole, whole + 1) else [])
        holes: list[tuple[int, int]] = []
        rows = table.count(0, whole)
        while chosen := list(islice(odd, MOST_BLOCKS)):
            offsets = self._some_rows(number, chosen, ()).offsets
            seen, times = np.unique(offsets[offsets < found.start], return_counts=True)
            rows += len(seen)
            found.twice.add(seen[times > 1])
            for first, stop in _runs(chosen):
                every = np.arange(first * BLOCK, min(stop * BLOCK, found.start))
                holes += _pairs(np.setdiff1d(every, seen, assume_unique=True))
        if not rows:
            return
        empty = _between(list(table.filled(whole + bool(rest))), whole)
        holes += [(first * BLOCK, stop * BLOCK - 1) for first, stop in empty if first < stop]
        if rest and not table.count(whole, whole + 1):
            holes.append((whole * BLOCK, found.start - 1))
        at = 0
        for first, last in sorted(holes):
            found.holes.add_range(first, last)
            if at < first:
                found.gone.add_range(at, first - 1)
            at = last + 1
        if at < found.start:
            found.gone.add_range(at, found.start - 1)


def _between(runs: list[tuple[int, int]], end: int) -> Iterator[tuple[int, int]]:
    """What lies between the runs, up to `end`."""
    at = 0
    for first, stop in runs:
        yield at, first
        at = stop
    yield at, end


def _runs(blocks: list[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as [first, end)."""
    first = previous = blocks[0]
    for block in blocks[1:]:
        if block != previous + 1:
            yield first, previous + 1
            first = block
        previous = block
    yield first, previous + 1


def _pairs(offsets: Longs) -> list[tuple[int, int]]:
    """Ascending offsets as (first, last)."""
    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    firsts = offsets[np.concatenate(([0], breaks + 1))]
    lasts = offsets[np.concatenate((breaks, [len(offsets) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _joined(parts: list[Records], names: Sequence[str]) -> Records:
    if not parts:
        return Records(prints={name: np.empty(0, np.uint64) for name in names})
    prints = {name: np.concatenate([part.prints[name] for part in parts]) for name in names}
    bytes_of = [part.bytes_of for part in parts if part.bytes_of is not None]
    return Records(
        np.concatenate([part.offsets for part in parts]),
        prints,
        np.concatenate(bytes_of) if bytes_of else None,
        np.concatenate([NONE, *(part.aborted for part in parts)]),
        np.concatenate([NONE, *(part.markers for part in parts)]),
        [hole for part in parts for hole in part.damaged],
    )
