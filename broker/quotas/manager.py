"""One type of quota: the limits of clients, and their recent use (Kafka's `ClientQuotaManager`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from broker.quotas.limits import Limits, Tags
from broker.quotas.sensors import Sensors
from broker.rate import Rate, TokenBucket, Windows

U = TypeVar("U", Rate, TokenBucket)

METRIC_WINDOWS = Windows(2, 30_000)
"""The windows over which Kafka's metrics take averages (`metrics.num.samples`, `metrics.sample.window.ms`)."""


class Client(NamedTuple):
    """The requesting client; its id is empty if there is none."""

    user: str
    client_id: str


class Average:
    """The mean of what was recorded recently."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._total, self._count = Rate(METRIC_WINDOWS), Rate(METRIC_WINDOWS)

    def record(self, value: float, now_ms: int) -> None:
        self._total.record(value, now_ms)
        self._count.record(1, now_ms)

    def measure(self, now_ms: int) -> float:
        """The mean; 0 if nothing was recorded."""
        count, _ = self._count.measure(now_ms)
        return self._total.measure(now_ms)[0] / count if count else 0.0


class Use(NamedTuple, Generic[U]):
    """The contents of one sensor."""

    used: U
    throttle_ms: Average


class QuotaManager(Generic[U]):
    """The limits of one type of quota, and the use of the clients that they apply to (of no others).

    Clients whose use is counted together share a sensor.
    """

    def __init__(self, used: Callable[[], U]) -> None:
        self.limits = Limits()
        self._sensors: Sensors[Tags, Use[U]] = Sensors(lambda: Use(used(), Average()))

    def of(self, client: Client, now_ms: int) -> tuple[U, float] | None:
        """What a client has used, and its limit; None if it has no limit."""
        found = self.limits.of(*client)
        return None if found is None else (self._sensors.use(found[0], now_ms).used, found[1])

    def throttled(self, client: Client, throttle_ms: int, now_ms: int) -> None:
        """Note that the client has to wait."""
        found = self.limits.of(*client)
        if found is not None:
            self._sensors.use(found[0], now_ms).throttle_ms.record(throttle_ms, now_ms)

    def throttle_times(self, now_ms: int) -> Iterator[tuple[Tags, float]]:
        """How long clients had to wait recently, on average."""
        return ((tags, use.throttle_ms.measure(now_ms)) for tags, use in self._sensors.items(now_ms))
