"""What is remembered about the clients that quotas apply to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

INACTIVE_MS = 3_600_000
"""A sensor unused for this long, in ms, is dropped (`InactiveSensorExpirationTimeSeconds`)."""
MOST = 20_000
"""Sensors that are kept: a client may name itself differently in each request, and each name may have a limit."""


class Sensors(Generic[K, T]):
    """Sensors by client, each made when first used."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._sensors: OrderedDict[K, tuple[T, int]] = OrderedDict()
        """Each sensor with the time of its last use; the last used comes at the end."""

    def use(self, key: K, now_ms: int) -> T:
        """The sensor for `key`, made if unknown (Kafka's `SensorAccess.getOrCreate`); `now_ms` is monotonic."""
        known = self._sensors.get(key)
        if known is None:
            self._expire(now_ms)
        sensor = self._make() if known is None else known[0]
        self._sensors[key] = sensor, now_ms
        self._sensors.move_to_end(key)
        if len(self._sensors) > MOST:
            self._sensors.popitem(last=False)
        return sensor

    def items(self, now_ms: int) -> Iterator[tuple[K, T]]:
        self._expire(now_ms)
        return ((key, sensor) for key, (sensor, _) in self._sensors.items())

    def _expire(self, now_ms: int) -> None:
        while self._sensors:
            oldest, (_, used_ms) = next(iter(self._sensors.items()))
            if now_ms - used_ms <= INACTIVE_MS:
                return
            del self._sensors[oldest]
