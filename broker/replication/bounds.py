"""The offsets that bound the readers of a partition."""

from __future__ import annotations

Bounds = tuple[int, int, int, int]
"""(log start offset, last stable offset, high watermark, log end offset)."""

UNREADABLE: Bounds = (-1, -1, -1, -1)
"""The bounds of a partition that is offline."""

TXN_COMMITTED, HIGH_WATERMARK, LOG_END = 1, 2, 3
"""Where reads end, as places in the bounds (Kafka's `FetchIsolation`): consumers' by isolation level, followers'."""
