"""The addresses of hosts that have a quota by name: looked up when the quota is set, and when the node starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from ipaddress import ip_address


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
