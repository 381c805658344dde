"""Enforces the quotas of clients (KIP-13, KIP-124, KIP-219; Kafka's `KafkaApis` and `RequestHandlerHelper`).

A client over its quota is answered at once, with the time that it should wait; until then its connection is not read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from broker.config.quota_windows import windows_of
from broker.quotas.entities import QUOTA_TYPES, Entity, QuotaType
from broker.quotas.manager import Client, QuotaManager
from broker.quotas.mutations import MutationQuota
from broker.rate import Rate, TokenBucket
from metadata.settings import QuotaKey
from protocol.api.table import API_BY_NAME
from protocol.durations import MILLISECOND

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig
    from broker.network.request import Request
    from protocol.produce_fetch.produce_messages import ProduceResponse

PRODUCE, FETCH, WRITE_TXN_MARKERS = (API_BY_NAME[name].key for name in ("produce", "fetch", "write_txn_markers"))
PERCENT_PER_MS = 100 / 1000
NO_LIMIT_BYTES = 2**31 - 1


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
            entity = Entity.of(key)
            if entity.ip is None:
                for name, quota_type in QUOTA_TYPES.items():
                    self.managers[quota_type].limits.put(entity, (quotas or {}).get(name))
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

    def _request_ms(self, ctx: Request, client: Client, now_ms: int) -> int:
        limited = self._count_time(ctx, client, now_ms)
        return 0 if limited is None else min(limited[0].throttle_ms(limited[1], now_ms), self._windows.size_ms)

    def _count_time(self, ctx: Request, client: Client, now_ms: int) -> tuple[Rate, float] | None:
        limited = self._request.of(client, now_ms)
        if limited is not None:
            limited[0].record(ctx.connection.spent_ms() * PERCENT_PER_MS, now_ms)
        return limited

    def _hold(self, ctx: Request, client: Client, request_ms: int, own_ms: int, manager: QuotaManager[Any]) -> int:
        """Hold the client back for the longer of the two times, and return it; `own_ms` is for `manager`'s quota."""
        throttle_ms = max(request_ms, own_ms)
        if throttle_ms:
            (manager if own_ms > request_ms else self._request).throttled(
                client, throttle_ms, int(self._monotonic_ms())
            )
            ctx.connection.throttle(throttle_ms)
        return throttle_ms


def _client(ctx: Request) -> Client:
    return Client(ctx.connection.principal.name, ctx.client_id or "")


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
