"""Enforces the quotas of clients (KIP-13, KIP-124, KIP-219, KIP-599; Kafka's `ClientQuotaManager`).

A client over its quota is answered at once, with the time that it should wait; until then its connection is not read.
The creation and deletion of partitions has a quota of its own kind, a bucket of tokens (`MutationQuota`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from broker.config.structured import windows_of
from broker.quotas.limits import QUOTA_TYPES, QuotaClient, QuotaLimits, QuotaType, Sensors
from controller.quotas import IP
from metadata.settings import QuotaKey
from protocol.api.table import API_BY_NAME
from protocol.durations import MILLISECOND
from protocol.errors import ThrottlingQuotaExceeded
from timing.rate import Rate, TokenBucket, Windows

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.network.request import Request
    from protocol.produce_fetch.produce_messages import ProduceResponse


U = TypeVar("U", Rate, TokenBucket)

METRIC_WINDOWS = Windows(2, 30_000)
"""The windows over which Kafka's metrics take averages (`metrics.num.samples`, `metrics.sample.window.ms`)."""

PRODUCE, FETCH, WRITE_TXN_MARKERS = (API_BY_NAME[name].key for name in ("produce", "fetch", "write_txn_markers"))
PERCENT_PER_MS = 100 / 1000
NO_LIMIT_BYTES = 2**31 - 1


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
        self.limits = QuotaLimits()
        self._sensors: Sensors[QuotaClient, Use[U]] = Sensors(lambda: Use(used(), Average()))

    def of(self, client: QuotaClient, now_ms: int) -> tuple[U, float] | None:
        """Return a client's use and its limit; None if it has no limit."""
        found = self.limits.of(*client)
        return None if found is None else (self._sensors.use(found[0], now_ms).used, found[1])

    def throttled(self, client: QuotaClient, throttle_ms: int, now_ms: int) -> None:
        """Note that the client has to wait."""
        found = self.limits.of(*client)
        if found is not None:
            self._sensors.use(found[0], now_ms).throttle_ms.record(throttle_ms, now_ms)

    def throttle_times(self, now_ms: int) -> Iterator[tuple[QuotaClient, float]]:
        """How long clients had to wait recently, on average."""
        return ((tags, use.throttle_ms.measure(now_ms)) for tags, use in self._sensors.items(now_ms))


class MutationQuota:
    """One request's view of its client's quota.

    A strict one refuses changes while tokens are owed, though a single change may go into debt. A lenient one, for
    versions of the APIs that do not know the error, only returns the time to wait.
    """

    def __init__(
        self, limited: tuple[TokenBucket, float] | None, strict: bool, monotonic_ms: Callable[[], float]
    ) -> None:
        self._limited = limited
        self._strict = strict
        self._monotonic_ms = monotonic_ms
        self._charged: set[str] = set()
        self._end_ms = 0

    def charge(self, topic: str, partitions: int) -> None:
        """Count a topic's partitions, once for the request. Raises ThrottlingQuotaExceeded."""
        if self._limited is None or topic in self._charged:
            return
        bucket, quota = self._limited
        now_ms = int(self._monotonic_ms())
        throttle_ms = bucket.throttle_ms(quota, now_ms)
        if not self._strict:
            bucket.take(partitions, quota, now_ms)
            throttle_ms = bucket.throttle_ms(quota, now_ms)
        if throttle_ms:
            self._end_ms = now_ms + throttle_ms
            if self._strict:
                raise ThrottlingQuotaExceeded
        elif self._strict:
            bucket.take(partitions, quota, now_ms)
        self._charged.add(topic)

    @property
    def throttle_time(self) -> timedelta:
        """The rest of the time that the client has to wait."""
        return timedelta(milliseconds=max(0, self._end_ms - int(self._monotonic_ms())))


class Throttling:
    """Enforces the quotas of users and clients. While none is set, a request only costs a look at `enabled`."""

    def __init__(self, config: BrokerConfig, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._windows = windows_of(config)
        mutation_windows = windows_of(config, "controller.")
        self._produce, self._fetch, self._request = (QuotaManager(lambda: Rate(self._windows)) for _ in range(3))
        self._mutation = QuotaManager(lambda: TokenBucket(mutation_windows))
        self.managers: dict[QuotaType, QuotaManager[Any]] = {
            QuotaType.PRODUCE: self._produce,
            QuotaType.FETCH: self._fetch,
            QuotaType.REQUEST: self._request,
            QuotaType.CONTROLLER_MUTATION: self._mutation,
        }
        self.enabled = False

    def follow(self, changed: Mapping[QuotaKey, Mapping[str, float] | None]) -> None:
        """Apply the quotas of those entities whose quotas have changed; None if they have no more."""
        for key, quotas in changed.items():
            if all(kind != IP for kind, _ in key):
                for name, quota_type in QUOTA_TYPES.items():
                    self.managers[quota_type].limits.put(key, (quotas or {}).get(name))
        self.enabled = any(manager.limits for manager in self.managers.values())

    # -- while a quota is set

    def spent(self, ctx: Request) -> None:
        """Count the time that a request took so far, before it waits; a later request pays for it."""
        self._count_time(ctx, _client(ctx), int(self._monotonic_ms()))

    def answer(self, ctx: Request, response: Any) -> Any:
        """The response to send; None if there is none, after Produce with acks=0. Fetch is handled separately."""
        if ctx.api_key == FETCH:
            return response
        client, now_ms = _client(ctx), int(self._monotonic_ms())
        exempt = response is None or ctx.api_key == WRITE_TXN_MARKERS
        request_ms = 0 if exempt else self._request_ms(ctx, client, now_ms)
        own_ms: int = 0
        manager: QuotaManager[Any] = self._mutation
        if ctx.api_key == PRODUCE:
            own_ms, manager = _over(self._produce.of(client, now_ms), ctx.size, now_ms), self._produce
        elif own := getattr(response, "throttle_time", None):
            own_ms = own // MILLISECOND
        throttle_ms = self._hold(ctx, client, request_ms, own_ms, manager)
        return response if response is None or not throttle_ms else _with_throttle_time(response, throttle_ms)

    def fetch_ms(self, ctx: Request, size: Callable[[], int]) -> int:
        """The ms to hold back a Fetch whose answer would have `size()` bytes; if not 0, the answer has no records."""
        client, now_ms = _client(ctx), int(self._monotonic_ms())
        request_ms, fetch_ms = self._request_ms(ctx, client, now_ms), 0
        limited = self._fetch.of(client, now_ms)
        if limited is not None:
            answer_bytes = size()
            fetch_ms = _over(limited, answer_bytes, now_ms)
            if request_ms or fetch_ms:
                limited[0].record(-answer_bytes, now_ms)
        return self._hold(ctx, client, request_ms, fetch_ms, self._fetch)

    def most_to_fetch(self, ctx: Request) -> int:
        """The largest answer, in bytes, that does not by itself exceed the client's quota."""
        limited = self._fetch.of(_client(ctx), int(self._monotonic_ms()))
        if limited is None:
            return NO_LIMIT_BYTES
        most = limited[1] * (self._windows.num - 1) * (self._windows.size_ms // 1000)
        return 0 if math.isnan(most) else int(min(most, NO_LIMIT_BYTES))

    def mutations(self, ctx: Request, *, strict: bool = True) -> MutationQuota:
        """The client's quota for changes of topics."""
        limited = self._mutation.of(_client(ctx), int(self._monotonic_ms())) if self.enabled else None
        return MutationQuota(limited, strict, self._monotonic_ms)

    def throttle_times(self, quota_type: QuotaType) -> Iterator[tuple[tuple[str, ...], float]]:
        return self.managers[quota_type].throttle_times(int(self._monotonic_ms()))

    def _request_ms(self, ctx: Request, client: QuotaClient, now_ms: int) -> int:
        limited = self._count_time(ctx, client, now_ms)
        return 0 if limited is None else min(limited[0].throttle_ms(limited[1], now_ms), self._windows.size_ms)

    def _count_time(self, ctx: Request, client: QuotaClient, now_ms: int) -> tuple[Rate, float] | None:
        limited = self._request.of(client, now_ms)
        if limited is not None:
            limited[0].record(ctx.connection.spent_ms() * PERCENT_PER_MS, now_ms)
        return limited

    def _hold(self, ctx: Request, client: QuotaClient, request_ms: int, own_ms: int, manager: QuotaManager[Any]) -> int:
        """Hold the client back for the longer of the two times, and return it; `own_ms` is for `manager`'s quota."""
        throttle_ms = max(request_ms, own_ms)
        if throttle_ms:
            (manager if own_ms > request_ms else self._request).throttled(
                client, throttle_ms, int(self._monotonic_ms())
            )
            ctx.connection.throttle(throttle_ms)
        return throttle_ms


def _client(ctx: Request) -> QuotaClient:
    return QuotaClient(ctx.connection.principal.name, ctx.client_id or "")


def _over(limited: tuple[Rate, float] | None, size: int, now_ms: int) -> int:
    if limited is None:
        return 0
    rate, quota = limited
    rate.record(size, now_ms)
    return rate.throttle_ms(quota, now_ms)


def _with_throttle_time(response: Any, throttle_ms: int) -> Any:
    fields = {field.name for field in dataclasses.fields(response)}
    if "throttle_time_ms" in fields:
        produced: ProduceResponse = response
        return dataclasses.replace(produced, throttle_time_ms=throttle_ms)
    if "throttle_time" in fields:
        return dataclasses.replace(response, throttle_time=throttle_ms * MILLISECOND)
    return response
