"""How late the event loop serves its timers, which shows when some work blocks it."""

from __future__ import annotations

from broker.monitoring.metrics import Histogram
from timing.clock import Clock, Timer

PERIOD_MS = 500.0


class LoopLag:
    """Sets a timer every half second, and notes in seconds how late it fires."""

    def __init__(self, clock: Clock, lag_s: Histogram) -> None:
        self._clock = clock
        self._lag_s = lag_s
        self._due_ms = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._due_ms = self._clock.monotonic_ms() + PERIOD_MS
        self._timer = self._clock.call_later(PERIOD_MS, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        self._lag_s.observe(max(self._clock.monotonic_ms() - self._due_ms, 0.0) / 1000.0)
        self.start()
