"""How often an address may connect (KIP-612; Kafka's `ConnectionQuotas`).

A host that has a quota by name is looked up when the quota is set, and when the node starts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address

from broker.quotas.limits import DEFAULT, Sensors
from controller.quotas import CONNECTION_RATE, IP
from metadata.image import MetadataImage
from timing.rate import Rate, Windows


async def resolve_all(hosts: Iterable[str]) -> dict[str, str]:
    """The address of each host; those that are not found are left out."""
    names = list(hosts)
    found = zip(names, await asyncio.gather(*map(resolve, names)), strict=True)
    return {host: address for host, address in found if address is not None}


async def resolve(host: str) -> str | None:
    """Look up a host; an address resolves to itself, in its usual form."""
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, ValueError):  # ValueError for a name with characters that no host has
        return None
    return str(found[0][4][0])


class ConnectionRates:
    """Limits in whole connections per second, by address; an address without its own has the default's."""

    def __init__(self, windows: Windows, monotonic_ms: Callable[[], float]) -> None:
        self._longest_ms = windows.size_ms
        self._monotonic_ms = monotonic_ms
        self._limits: dict[str, int] = {}
        self._sensors: Sensors[str, Rate] = Sensors(lambda: Rate(windows))
        self._addresses: dict[str, str] = {}
        self._rates: dict[str, float] = {}
        self._looking: set[asyncio.Task[None]] = set()

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

    def follow(self, image: MetadataImage) -> None:
        """Apply the rates of the image. A host with one by name has it once it was looked up, if it is found."""
        self._rates = _limited(image)
        self._apply()
        names = {name for name in self._rates if name and name not in self._addresses}
        if names:
            looking = asyncio.get_running_loop().create_task(self._look_up(names), name="hosts-with-quotas")
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    async def _look_up(self, names: Collection[str]) -> None:
        self._addresses |= await resolve_all(names)
        self._apply()

    def _apply(self) -> None:
        known = {DEFAULT: DEFAULT, **self._addresses}
        self._limits = {known[name]: _whole(rate) for name, rate in self._rates.items() if name in known}


def _limited(image: MetadataImage) -> dict[str, float]:
    """The rate of each host that has one; the default's name is empty."""
    return {
        key[0][1] or DEFAULT: quotas[CONNECTION_RATE]
        for key, quotas in image.quotas.items()
        if len(key) == 1 and key[0][0] == IP and CONNECTION_RATE in quotas
    }


def _whole(rate: float) -> int:
    """The limit as Java casts it to int; NaN and values just below 1 become 0, which lets nobody connect."""
    return 0 if math.isnan(rate) else int(rate)
