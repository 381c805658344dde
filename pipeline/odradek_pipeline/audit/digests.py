"""A count and a hash for every 1,000 offsets of a partition, whatever the order in which its rows come.

Two sides whose blocks have equal counts and equal sums have the same rows there, but for a chance of one in 2^64 a
block. Nobody who can choose the records is kept from making two that collide: this finds faults, not forgeries.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from odradek_pipeline.audit.prints import Longs, Prints, mixed

BLOCK = 1_000
"""Offsets in a block."""
_CHUNK = 1 << 10
"""Blocks whose numbers lie together: memory is taken for those parts of the offsets alone that have rows."""


class _Chunk:
    __slots__ = ("counts", "offsets", "sums")

    def __init__(self) -> None:
        self.counts = np.zeros(_CHUNK, np.int64)
        self.sums = np.zeros(_CHUNK, np.uint64)
        self.offsets = np.zeros(_CHUNK, np.uint64)

    def arrays(self) -> tuple[NDArray[np.int64], Prints, Prints]:
        return self.counts, self.sums, self.offsets


class Digests:
    """The digests of one side. 24 bytes for 1,000 offsets."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self.rows = 0
        self.last = -1

    def add(self, offsets: Longs, prints: Prints) -> None:
        """Rows with their prints, in any order, and with repeated offsets; a negative offset is one as well."""
        if not len(offsets):
            return
        self.rows += len(offsets)
        self.last = max(self.last, int(offsets.max()))
        places = mixed(offsets.view(np.uint64))
        sums = mixed(places ^ prints)
        blocks = offsets // BLOCK
        chunks, slots = blocks // _CHUNK, blocks % _CHUNK
        first, last = int(chunks.min()), int(chunks.max())
        for number in (first,) if first == last else np.unique(chunks).tolist():
            chunk = self._chunks.setdefault(number, _Chunk())
            inside: slice | NDArray[np.bool_] = slice(None) if first == last else chunks == number
            at = slots[inside]
            chunk.counts += np.bincount(at, minlength=_CHUNK)
            np.add.at(chunk.sums, at, sums[inside])
            np.add.at(chunk.offsets, at, places[inside])

    def differing(self, other: Digests) -> Iterator[int]:
        """The blocks that are not the same on both sides, in order."""
        nothing = _Chunk()
        for number in sorted(self._chunks.keys() | other._chunks.keys()):
            own, its = self._chunks.get(number, nothing), other._chunks.get(number, nothing)
            for slot in np.flatnonzero((own.counts != its.counts) | (own.sums != its.sums)):
                yield number * _CHUNK + int(slot)

    def not_whole(self, end: int) -> Iterator[int]:
        """The blocks from 0 on, before that of `end`, with rows, but not with each of their offsets exactly once."""
        for number, chunk in sorted(self._chunks.items()):
            first = number * _CHUNK
            if first * BLOCK >= end:
                return
            expected = _whole(first, chunk.counts == BLOCK)
            for slot in np.flatnonzero((chunk.counts != BLOCK) | (chunk.offsets != expected)):
                block = first + int(slot)
                if chunk.counts[slot] and block >= 0 and (block + 1) * BLOCK <= end:
                    yield block

    def count(self, first: int, end: int) -> int:
        """The rows of blocks [first, end)."""
        total = 0
        for number, chunk in self._chunks.items():
            base = number * _CHUNK
            total += int(chunk.counts[max(0, first - base) : max(0, end - base)].sum())
        return total

    def filled(self, end: int) -> Iterator[tuple[int, int]]:
        """The runs [first, end) of blocks from 0 up to `end` that have rows."""
        run: tuple[int, int] | None = None
        for number, chunk in sorted(self._chunks.items()):
            for slot in np.flatnonzero(chunk.counts):
                block = number * _CHUNK + int(slot)
                if block < 0:
                    continue
                if block >= end:
                    break
                if run is not None and run[1] == block:
                    run = run[0], block + 1
                    continue
                if run is not None:
                    yield run
                run = block, block + 1
        if run is not None:
            yield run


def _whole(first: int, wanted: NDArray[np.bool_]) -> Prints:
    """What the sums of places are in blocks that have each of their offsets once; 0 where not wanted."""
    out = np.zeros(_CHUNK, np.uint64)
    for slot in np.flatnonzero(wanted):
        start = (first + int(slot)) * BLOCK
        places = mixed(np.arange(start, start + BLOCK, dtype=np.int64).view(np.uint64))
        out[slot] = np.add.reduce(places)
    return out
