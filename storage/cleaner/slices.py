"""Long work that must not delay the loop: slices in a worker thread, with pauses between them.

Work is made of small steps (`Steps`), so that a thread can do a slice of it and then let the loop have the interpreter.
Reading a segment's batches is such work; the segment must be intact, since compaction drops whatever it does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from protocol.records.batch import BatchHeader
from storage.log.segment_recovery import whole_batches
from storage.segments.segment import LogSegment
from storage.workers import Workers
from timing.clock import Clock

T = TypeVar("T")

Steps = Generator[int, None, T]
"""Yields often, each time the bytes read and written since the last yield; may be abandoned at any yield."""

RECORDS_A_STEP = 200


SLICE_MS = 2.0
PAUSE_MS = 1.0
IDLE_TURN_MS = 0.2
LONGEST_PAUSE_MS = 200.0
STEPS_A_SLICE = 1000


class Slices:
    """Runs steps; during a slice the loop waits at most `SLICE_MS` at a time for the interpreter.

    `max_bytes_per_second` limits what the steps read and write (`log.cleaner.io.max.bytes.per.second`).
    """

    def __init__(self, clock: Clock, workers: Workers, max_bytes_per_second: float) -> None:
        self._clock = clock
        self._workers = workers
        self._rate = max_bytes_per_second
        self._began_ms = clock.monotonic_ms()
        self._bytes = 0

    async def run(self, steps: Steps[T], check: Callable[[], None]) -> T:
        """The steps' result. `check` is called before each slice; if it raises, the work ends."""
        result: list[T] = []

        def run_slice() -> bool:
            """Whether there is more to do."""
            end = self._clock.monotonic_ms() + SLICE_MS
            try:
                for _ in range(STEPS_A_SLICE):
                    self._bytes += next(steps)
                    if self._clock.monotonic_ms() >= end:
                        break
            except StopIteration as done:
                result.append(done.value)
                return False
            return True

        try:
            check()
            more = True
            while more:
                more = await self._workers.call(run_slice)
                if more:
                    await self._pause()
                check()
                while (ahead_ms := self._ahead_ms()) >= PAUSE_MS:
                    await self._clock.sleep(min(ahead_ms, LONGEST_PAUSE_MS))
                    check()
        finally:
            steps.close()
        return result[0]

    async def _pause(self) -> None:
        """Give the loop a turn, and a longer one if it turns out to have other work."""
        began_ms = self._clock.monotonic_ms()
        await self._clock.sleep(0)
        if self._clock.monotonic_ms() - began_ms > IDLE_TURN_MS:
            await self._clock.sleep(PAUSE_MS)

    def _ahead_ms(self) -> float:
        """How long to wait in order to keep to the rate."""
        return self._bytes / self._rate * 1000 - (self._clock.monotonic_ms() - self._began_ms)


def batches_of(segment: LogSegment, start: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
    """(header, bytes) of every batch from position `start`, where a batch must begin, to the segment's end.

    Raises OSError, and ValueError if anything but a batch comes before the end: Kafka's cleaner then leaves the log
    alone (CorruptRecordException).
    """
    end = start
    for position, header, batch in whole_batches(segment.file.open(), start, segment.size):
        yield header, batch
        end = position + header.size
    if end != segment.size:
        raise ValueError(f"{segment.file.path} holds no whole batch at {end}, though it has {segment.size} bytes")
