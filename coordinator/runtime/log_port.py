"""The log as a CoordinatorContext sees it. The broker has an adapter for a partition; tests have one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from protocol.errors import KafkaError

Unlisten = Callable[[], None]


class LogPort(Protocol):
    """One internal partition, led by this node."""

    @property
    def high_watermark(self) -> int:
        """The high watermark: nothing below it can be lost."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that can be appended."""

    def append(self, batch: bytearray) -> int:
        """Append one whole batch, and return the offset of its first record; never awaits.

        Raises KafkaError, and then nothing of it is in the log.
        """

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Unlisten:
        """Call `advanced` with the high watermark as it rises (even during an append), `failed` if it never will."""

    def batches(self) -> AsyncIterator[bytes | bytearray | memoryview]:
        """The log from its start to its present end, in pieces of whole batches. Raises KafkaError."""
