"""Time as something that is passed in: the only access to clocks, sleeping and `loop.call_later`.

All durations and instants are milliseconds. Monotonic readings have an arbitrary origin and are for deadlines; wall
readings count from the Unix epoch and are for what is written down (record timestamps, retention, expiry of state).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Prevent the call. Harmless if it was made or cancelled already."""


class Clock(Protocol):
    """All that a module may ask about time."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary origin; never goes backwards."""

    def wall_ms(self) -> int:
        """Whole milliseconds since the Unix epoch; may jump."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the loop after `delay_ms` (at the next chance when zero or negative)."""

    async def sleep(self, delay_ms: float) -> None:
        """Return after `delay_ms`."""

    def pause_ms(self, period_ms: float) -> float:
        """How long what repeats every `period_ms` pauses until it runs again: longer while somebody moves time."""

    @property
    def machine(self) -> Clock:
        """The clock that nobody moves or stops: for connections, for pacing work, and for waits of the node itself."""


class SystemClock:
    """The machine's clocks, and the timers of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        # uvloop freezes time() for a whole loop iteration and counts whole milliseconds, so a deadline set late in a
        # long iteration would pass early. Both loops' timers run on time.monotonic(); any other loop (a simulator)
        # may have a time of its own.
        uses_libuv = type(self._loop).__module__.partition(".")[0] == "uvloop"
        self._seconds = time.monotonic if uses_libuv else self._loop.time

    def monotonic_ms(self) -> float:
        return self._seconds() * 1000.0

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        # libuv and epoll count whole milliseconds, and uvloop rounds to the nearest, which may be too early.
        return self._loop.call_later(math.ceil(delay_ms) / 1000.0, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(math.ceil(delay_ms) / 1000.0)

    def pause_ms(self, period_ms: float) -> float:
        return period_ms

    @property
    def machine(self) -> Clock:
        return self
