"""An offset of a log, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple


class LogOffsetMetadata(NamedTuple):
    """An offset and where it lies: the segment's base offset and the byte position in it (-1: not known)."""

    offset: int
    segment_base: int = -1
    position: int = -1


new_offset_metadata: Callable[[tuple[int, int, int]], LogOffsetMetadata] = partial(tuple.__new__, LogOffsetMetadata)
