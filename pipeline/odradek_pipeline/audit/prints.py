"""Fingerprints of columns: 64 bits a cell, so that cells of any size are compared without being kept."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

Longs = NDArray[np.int64]
Prints = NDArray[np.uint64]

NULL = np.uint64(0x9E3779B97F4A7C15)
UNSURE = np.uint64(0)
"""The print of a cell that cannot be compared; no other cell has it."""


def mixed(numbers: Prints) -> Prints:
    """Each number spread over all 64 bits (the finalizer of SplitMix64): sums of the results then differ."""
    out = numbers + np.uint64(0x9E3779B97F4A7C15)
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return out ^ (out >> np.uint64(31))


def combined(prints: Mapping[str, Prints], count: int) -> Prints:
    """One print for each row of several columns, which both sides name alike."""
    out = np.zeros(count, np.uint64)
    for name in sorted(prints):
        out = mixed(out ^ prints[name])
    return out


def prints_of(cells: pa.Array) -> Prints:
    """The prints of a column: bytes, text, times to the millisecond, and lists of headers (none and null are alike)."""
    kind = cells.type
    if pa.types.is_timestamp(kind):
        return _numbers(_millis(cells))
    if pa.types.is_integer(kind):
        return _numbers(cells.cast(pa.int64()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(cells)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _bytes(cells.cast(pa.large_string()).cast(pa.large_binary()))
    return _bytes(cells)


def longs(cells: pa.Array) -> Longs:
    """A column of integers without nulls."""
    found: Longs = cells.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _millis(cells: pa.Array) -> pa.Array:
    zone = cells.type.tz
    if cells.type.unit != "ms":
        cells = cells.cast(pa.timestamp("ms", zone), safe=False)
    return cells.cast(pa.int64())


def _numbers(cells: pa.Array) -> Prints:
    values: Longs = cells.fill_null(0).to_numpy(zero_copy_only=False)
    out = mixed(values.view(np.uint64))
    out[_nulls(cells)] = NULL
    return _sure(out)


def _bytes(cells: pa.Array) -> Prints:
    out = np.full(len(cells), NULL)
    values = cells.drop_null().to_pylist()
    out[~_nulls(cells)] = np.fromiter(map(xxh3_64_intdigest, values), np.uint64, len(values))
    return _sure(out)


def _lists(cells: pa.Array) -> Prints:
    """Headers in their order: the sum of the pairs' prints, each with its place in the list."""
    sizes = np.nan_to_num(cells.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
    out = np.zeros(len(cells), np.uint64)
    pairs = cells.flatten()
    if len(pairs):
        row = np.repeat(np.arange(len(cells)), sizes)
        place = np.arange(len(pairs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        keys, values = (prints_of(pairs.field(number)) for number in (0, 1))
        np.add.at(out, row, mixed(mixed(keys) ^ mixed(values + np.uint64(1)) ^ place.astype(np.uint64)))
    return _sure(mixed(out))


def _nulls(cells: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return found


def _sure(prints: Prints) -> Prints:
    prints[prints == UNSURE] = 1
    return prints
