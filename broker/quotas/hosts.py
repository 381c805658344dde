"""The addresses of hosts that have a quota by name: looked up when the quota is set, and when the node starts.

One name is looked up at a time: the few threads for that are also those of connections to other nodes, which must not
wait for the names that somebody has made up, each of which may take a name server half a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from ipaddress import ip_address
from weakref import WeakKeyDictionary

from protocol.errors import PolicyViolation

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
