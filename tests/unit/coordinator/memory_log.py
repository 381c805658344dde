"""An internal partition in memory, whose high watermark follows at once or when told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from protocol.errors import KafkaError, MessageTooLarge
from protocol.records.batch import read_header, set_offsets_and_epoch
from protocol.records.build import Record, iter_records

BATCHES_A_PIECE = 5
"""Of a log that is loaded: few, so that there are several pieces, but more than one."""


class MemoryLog:
    """A LogPort. `fail_with` is raised by the next appends; with `hold` the high watermark waits for `commit`."""

    def __init__(self, max_batch_bytes: int = 1 << 20) -> None:
        self.written: list[bytes] = []
        self.log_end_offset = 0
        self.max_batch_bytes = max_batch_bytes
        self.hold = False
        self.fail_with: KafkaError | None = None
        self.load_gate: asyncio.Event | None = None
        self._high_watermark = 0
        self._listeners: list[tuple[Callable[[int], None], Callable[[KafkaError], None]]] = []

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    def append(self, batch: bytearray) -> int:
        if self.fail_with is not None:
            raise self.fail_with
        if len(batch) > self.max_batch_bytes:
            raise MessageTooLarge
        first = self.log_end_offset
        set_offsets_and_epoch(batch, read_header(batch), first, 0)
        self.written.append(bytes(batch))
        self.log_end_offset = read_header(batch).next_offset
        if not self.hold:
            self.commit()
        return first

    def commit(self, up_to: int | None = None) -> None:
        """Raise the high watermark, to the end unless told."""
        self._high_watermark = self.log_end_offset if up_to is None else up_to
        for advanced, _ in list(self._listeners):
            advanced(self._high_watermark)

    def fail(self, error: KafkaError) -> None:
        """The high watermark will never reach the end."""
        for _, failed in list(self._listeners):
            failed(error)

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Callable[[], None]:
        entry = (advanced, failed)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    async def batches(self) -> AsyncIterator[bytes]:
        if self.load_gate is not None:
            await self.load_gate.wait()
        written = list(self.written)
        for first in range(0, len(written), BATCHES_A_PIECE):
            yield b"".join(written[first : first + BATCHES_A_PIECE])

    def records(self) -> list[Record]:
        """Everything in the log, markers included."""
        return [record for batch in self.written for record in iter_records(batch, read_header(batch))]
