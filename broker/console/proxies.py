"""Where a request comes from, if proxies may stand between the browser and this node (`odradek.http.trusted.proxies`).

ACLs have hosts in them, and guesses at passwords are counted by address: so no address is guessed. A header that any
stranger can send is believed only from a proxy that is trusted, and nobody can say who is behind another one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import NamedTuple

from aiohttp import web

from broker.config.structured import Network
from broker.control.endpoint import ControlError
from protocol.java_strings import java_address

FOR, PROTO = "X-Forwarded-For", "X-Forwarded-Proto"
FORWARDED = ("Forwarded", FOR, "X-Forwarded-Host", PROTO, "X-Real-IP", "Via")
"""Headers by which a proxy shows that it is one."""

WITH_PORT = re.compile(r"\[(.*)\](?::[0-9]+)?|([0-9.]+):[0-9]+")
"""Some proxies write `10.0.0.7:5000`, or `[::1]:5000`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Origin(NamedTuple):
    """`address` is that of the browser, as ACLs have it; `is_secure`: the browser has come by https."""

    address: str
    is_secure: bool


def origin_of(request: web.Request, trusted: Collection[Network]) -> Origin:
    """Where the request comes from. Raises ControlError (403) if only a guess could say it."""
    peer = _address(request.remote or "")
    if peer is None:
        raise ControlError("the address of this connection is not known", status=403)
    if not _is_one_of(peer, trusted):
        if any(name in request.headers for name in FORWARDED):
            raise ControlError(
                f"this comes through a proxy, so that your own address is not known: name {peer} in "
                "odradek.http.trusted.proxies if it is yours",
                status=403,
            )
        return Origin(java_address(str(peer)), request.secure)
    protocols = _values(request, PROTO)
    return Origin(java_address(str(_behind(request, peer, trusted))), protocols[:1] == ["https"])


def _behind(request: web.Request, peer: Address, trusted: Collection[Network]) -> Address:
    """Who has come to the first trusted proxy: what stands before that in the header, anybody may have written."""
    names = _values(request, FOR)
    if not names:
        raise ControlError(f"the proxy at {peer} does not say for whom it asks: have it send {FOR}", status=403)
    found = peer
    for name in reversed(names):
        with_port = WITH_PORT.fullmatch(name)
        address = _address((with_port[1] or with_port[2]) if with_port else name)
        if address is None:
            raise ControlError(f"{FOR} has {name[:60]!r} in it: expected an address", status=403)
        found = address
        if not _is_one_of(found, trusted):
            break
    return found


def _values(request: web.Request, header: str) -> list[str]:
    """Those of a header that is a list, and may be there several times."""
    return [value.strip() for line in request.headers.getall(header, ()) for value in line.split(",") if value.strip()]


def _address(name: str) -> Address | None:
    """An IPv4 address that came as one of IPv6 (`::ffff:10.0.0.7`) is what ACLs have; a scope is not."""
    try:
        found = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_one_of(address: Address, networks: Collection[Network]) -> bool:
    return any(address in network for network in networks)
