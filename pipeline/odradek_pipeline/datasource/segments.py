"""The segments of a partition's folder, at a moment when a broker may be renaming them.

What counts is what a broker would find there after a crash (Kafka's LogLoader): `.deleted` and `.cleaned` files are
ignored; a `.swap` log is complete and replaces all segments that it covers.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.places import Place, open_log
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment

_SEGMENT_FILE = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex))(\.swap|\.cleaned)?")
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot")
_LISTINGS = 1000


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: the offset that it starts at, its log, and those of its indexes that exist.

    `remote`: what is known of it if it is in remote storage.
    """

    base_offset: int
    log: Place
    index: Place | None
    time_index: Place | None
    txn_index: Place | None
    remote: RemoteSegment | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The segments in order, and the offsets of the producer snapshots, ascending."""

    folder: str
    segments: tuple[Segment, ...]
    snapshots: tuple[int, ...]

    def floor(self, offset: int) -> Segment | None:
        """The last segment that starts at or before an offset."""
        return next((segment for segment in reversed(self.segments) if segment.base_offset <= offset), None)

    def after(self, segment: Segment) -> Segment | None:
        """The segment that follows."""
        return next((other for other in self.segments if other.base_offset > segment.base_offset), None)

    def overlapping(self, start: int, end: int) -> tuple[Segment, ...]:
        """The segments that may hold offsets of [start, end)."""
        first = self.floor(start)
        base = first.base_offset if first is not None else start
        return tuple(segment for segment in self.segments if base <= segment.base_offset < end)


def base_offset_of(log: str) -> int:
    """The offset that a segment starts at, by the path of its log."""
    return int(os.path.basename(log)[:20])


def list_segments(folder: str) -> Listing:
    """The current contents of a folder. Raises FileNotFoundError if it, or a file in it, is removed meanwhile."""
    names = _steady_names(folder)
    present: dict[int, set[str]] = {}
    for name in names:
        match = _SEGMENT_FILE.fullmatch(name)
        if match:
            present.setdefault(int(match[1]), set()).add(match[2] + (match[3] or ""))
    cleaned = [base for base, files in present.items() if any(file.endswith(".cleaned") for file in files)]
    oldest_cleaned = min(cleaned, default=None)
    swaps = sorted(
        base
        for base, files in present.items()
        if ".log.swap" in files and (oldest_cleaned is None or base < oldest_cleaned)
    )
    replaced = range(swaps[0], _end_of_swap(folder, swaps[-1])) if swaps else range(0)
    segments = []
    for base, files in sorted(present.items()):
        if base in swaps:
            segments.append(_segment(folder, base, files, (".swap",)))
        elif ".log" in files and base not in replaced:
            segments.append(_segment(folder, base, files, ("", ".swap")))
    snapshots = sorted(int(match[1]) for name in names if (match := _SNAPSHOT.fullmatch(name)))
    return Listing(folder, tuple(segments), tuple(snapshots))


def _segment(folder: str, base: int, files: set[str], suffixes: tuple[str, ...]) -> Segment:
    """The segment. The log of a compacted one is renamed first, so its indexes may still be `.swap`."""

    def path(kind: str) -> str | None:
        return next((f"{folder}/{base:020d}{kind}{suffix}" for suffix in suffixes if kind + suffix in files), None)

    log = path(".log")
    if log is None:
        raise AssertionError(f"segment {base} of {folder} has no log")
    return Segment(base, log, path(".index"), path(".timeindex"), path(".txnindex"))


def _steady_names(folder: str) -> set[str]:
    """The folder's files. While files are being renamed, a listing may miss some, so two in a row must be the same."""
    before = set(os.listdir(folder))
    for _ in range(_LISTINGS):
        names = set(os.listdir(folder))
        if names == before:
            return names
        before = names
    raise DataSourceError(f"{folder} changes faster than it can be listed.")


def _end_of_swap(folder: str, base: int) -> int:
    with open_log(f"{folder}/{base:020d}.log.swap") as log:
        end = base + 1
        for _, header in walk.headers(log, 0):
            end = header.next_offset
        return end
