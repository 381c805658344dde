"""The rate of something over the last windows, and how long to wait until it is within a quota again.

The rules are those of Kafka's `SampledStat`, `Rate`, `TokenBucket` and `QuotaUtils`, sample for sample, so that the
times that clients get are Kafka's. Instants are whole milliseconds of a monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Windows:
    """`num` samples of `size_ms` each (`quota.window.num`, `quota.window.size.seconds`)."""

    num: int
    size_ms: int


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """A sum over the last windows, per second."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add `value` to the current window (Kafka's `SampledStat.record`); `now_ms` never goes back."""
        samples, windows = self._samples, self._windows
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        elif now_ms - samples[self._current].start_ms >= windows.size_ms:
            self._current = (self._current + 1) % (windows.num + 1)  # one more, as the oldest may overlap the time
            if self._current == len(samples):
                samples.append(_Sample(now_ms, now_ms))
            else:
                samples[self._current].reset(now_ms)
        sample = samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """(rate per second, measured time in ms). The time is at least that of all windows except one."""
        windows = self._windows
        total, elapsed_ms = self._sum(now_ms)
        elapsed_ms += max(windows.num - 1 - elapsed_ms // windows.size_ms, 0) * windows.size_ms
        elapsed_ms = max(elapsed_ms, 1)
        return total / (elapsed_ms / 1000.0), elapsed_ms

    def _sum(self, now_ms: int) -> tuple[float, int]:
        """Return the sum of the windows that count, and the time since the oldest of them began, in ms."""
        expired_ms = now_ms - self._windows.num * self._windows.size_ms
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if sample.last_ms <= expired_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
        return total, now_ms - oldest_ms

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Milliseconds without use until the rate has fallen to the quota; 0 if it is within it."""
        rate, elapsed_ms = self.measure(now_ms)
        if rate <= quota:
            return 0
        return _whole_ms((rate - quota) / quota * elapsed_ms) if quota else LONGEST_MS


class SimpleRate(Rate):
    """The rate since the oldest window that counts began, over one window at least (Kafka's `SimpleRate`)."""

    __slots__ = ()

    def measure(self, now_ms: int) -> tuple[float, int]:
        total, elapsed_ms = self._sum(now_ms)
        elapsed_ms = max(elapsed_ms, self._windows.size_ms)
        return total / (elapsed_ms / 1000.0), elapsed_ms


class TokenBucket:
    """Tokens accrue at the rate of a quota, at most what accrues in all windows; they may be owed (KIP-599)."""

    __slots__ = ("_last_ms", "_seconds", "_tokens")

    def __init__(self, windows: Windows) -> None:
        self._seconds = windows.num * (windows.size_ms / 1000.0)
        self._tokens = math.inf  # full at first
        self._last_ms = 0

    def take(self, tokens: float, quota: float, now_ms: int) -> None:
        self._refill(quota, now_ms)
        self._tokens -= tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Milliseconds until nothing is owed."""
        self._refill(quota, now_ms)
        return 0 if self._tokens >= 0 else _whole_ms(-self._tokens / quota * 1000)

    def _refill(self, quota: float, now_ms: int) -> None:
        self._tokens = min(self._seconds * quota, self._tokens + quota * ((now_ms - self._last_ms) / 1000.0))
        self._last_ms = now_ms


def _whole_ms(ms: float) -> int:
    """The time, rounded as Java's `Math.round` does; 0 for NaN."""
    return 0 if math.isnan(ms) else math.floor(min(ms, LONGEST_MS) + 0.5)
