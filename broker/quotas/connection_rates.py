"""How often an address may connect (KIP-612; Kafka's `ConnectionQuotas`).

A host that has a quota by name is looked up when the quota is set, and when the node starts. One name is looked up at a
time: the few threads for that are also those of connections to other nodes, which must not wait for the names that
somebody has made up, each of which may take a name server half a minute.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address
from weakref import WeakKeyDictionary

from broker.quotas.limits import DEFAULT, Sensors
from controller.quotas import CONNECTION_RATE, IP
from metadata.settings import QuotaKey
from protocol.errors import PolicyViolation
from timing.rate import Rate, Windows

MOST_NAMES = 100
"""Names that are looked up for one request."""

_one_at_a_time: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def resolve_all(hosts: Collection[str]) -> dict[str, str]:
    """The address of each host; those that are not found are left out. Raises PolicyViolation for many names."""
    found = {host: address_of(host) for host in hosts}
    names = [host for host, address in found.items() if address is None]
    if len(names) > MOST_NAMES:
        raise PolicyViolation(
            f"The request has {len(names)} names of hosts to look up; the most is {MOST_NAMES}. Ask for less at once, "
            "or give their addresses."
        )
    for name in names:
        found[name] = await resolve(name)
    return {host: address for host, address in found.items() if address is not None}


def address_of(host: str) -> str | None:
    """An address in its usual form; None for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


async def resolve(name: str) -> str | None:
    """The address of a host; None if it is not found."""
    loop = asyncio.get_running_loop()
    async with _one_at_a_time.setdefault(loop, asyncio.Semaphore()):
        try:
            found = await loop.getaddrinfo(name, None)
        except (OSError, ValueError):  # ValueError for a name with characters that no host has
            return None
    return str(found[0][4][0])


class ConnectionRates:
    """Limits in whole connections per second, by address; an address without its own has the default's."""

    def __init__(self, windows: Windows, monotonic_ms: Callable[[], float]) -> None:
        self._longest_ms = windows.size_ms
        self._monotonic_ms = monotonic_ms
        self._limits: dict[str, dict[str, int]] = {}  # by address, then by the name that it was set for
        self._sensors: Sensors[str, Rate] = Sensors(lambda: Rate(windows))
        self._addresses: dict[str, str] = {}
        self._unknown: dict[str, float] = {}  # the rates of names that were not found, or not yet
        self._looking: asyncio.Task[None] | None = None

    def throttle_ms(self, host: str) -> int:
        """0 for a connection that is accepted, and counted; else the ms that its client has to wait first."""
        limits = self._limits.get(host) or self._limits.get(DEFAULT)
        if limits is None:
            return 0
        now_ms = int(self._monotonic_ms())
        rate = self._sensors.use(host, now_ms)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(next(reversed(limits.values())), now_ms), self._longest_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    def follow(self, changed: Mapping[QuotaKey, Mapping[str, float] | None]) -> None:
        """Apply the quotas of those entities whose quotas have changed; None if they have no more.

        A host with a rate by name has it once it was looked up, if it is found; if not, it is looked up again when
        another rate changes.
        """
        for key, quotas in changed.items():
            if len(key) == 1 and key[0][0] == IP:
                self._put(key[0][1] or DEFAULT, (quotas or {}).get(CONNECTION_RATE))
        if self._unknown and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look_up(), name="hosts-with-quotas")

    def _put(self, name: str, rate: float | None) -> None:
        """Set, or with None remove, the rate of a host."""
        address = DEFAULT if name == DEFAULT else self._addresses.get(name) or address_of(name)
        self._unknown.pop(name, None)
        if address is None:
            if rate is not None:
                self._unknown[name] = rate
            return
        limits = self._limits.setdefault(address, {})
        limits.pop(name, None)
        if rate is not None:
            limits[name] = _whole(rate)
            return
        self._addresses.pop(name, None)
        if not limits:
            del self._limits[address]

    async def _look_up(self) -> None:
        looked_up: set[str] = set()
        while name := next((each for each in self._unknown if each not in looked_up), None):
            looked_up.add(name)
            address = await resolve(name)
            rate = self._unknown.get(name)
            if address is not None and rate is not None:
                self._addresses[name] = address
                self._put(name, rate)


def _whole(rate: float) -> int:
    """The limit as Java casts it to int; NaN and values just below 1 become 0, which lets nobody connect."""
    return 0 if math.isnan(rate) else int(rate)
