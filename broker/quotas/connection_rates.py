"""How often an address may connect (KIP-612; Kafka's `ConnectionQuotas`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entities import CONNECTION_RATE, DEFAULT, Entity
from broker.quotas.rate import Rate, Windows
from broker.quotas.sensors import Sensors


class ConnectionRates:
    """Limits in whole connections per second, by address; an address without its own has the default's."""

    def __init__(self, quotas: ClientQuotas, windows: Windows, monotonic_ms: Callable[[], float]) -> None:
        self._quotas = quotas
        self._longest_ms = windows.size_ms
        self._monotonic_ms = monotonic_ms
        self._limits: dict[str, int] = {}
        self._sensors: Sensors[str, Rate] = Sensors(lambda: Rate(windows))
        self._read()
        quotas.subscribe(self._changed)

    def throttle_ms(self, host: str) -> int:
        """0 for a connection that is accepted, and counted; else the ms that its client has to wait first."""
        limit = self._limits.get(host, self._limits.get(DEFAULT))
        if limit is None:
            return 0
        now_ms = int(self._monotonic_ms())
        rate = self._sensors.use(host, now_ms)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._longest_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    def _changed(self, entity: Entity) -> None:
        if entity.ip is not None:
            self._read()

    def _read(self) -> None:
        self._limits = {
            self._quotas.address_of(entity): _whole(quotas[CONNECTION_RATE])
            for entity in self._quotas
            if entity.ip is not None and CONNECTION_RATE in (quotas := self._quotas.of(entity))
        }


def _whole(rate: float) -> int:
    """The limit as Java casts it to int; NaN and values just below 1 become 0, which lets nobody connect."""
    return 0 if math.isnan(rate) else int(rate)
