"""Names under which others may know this node's HTTP ports.

Without this a page elsewhere could point its own name at a node's address, and then read what the node answers
through a visitor's browser (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from broker.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

SETTING = "odradek.console.hosts"
FOR, PROTO = "X-Forwarded-For", "X-Forwarded-Proto"
OF_PROXIES = ("Forwarded", FOR, "X-Forwarded-Host", PROTO, "X-Real-IP", "Via")
"""Headers by which a proxy shows that it is one."""


class KnownHosts:
    """The names in `odradek.console.hosts`, and the node's own: those that its listeners advertise."""

    def __init__(self, config: BrokerConfig, own: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in (*config.list_(SETTING), *own))

    def problem(self, request: BaseRequest) -> str | None:
        """Say why the request's `Host` is refused; None if it is known, or absent: every browser sends one."""
        host = request.headers.get("Host")
        if host is None or is_known_host(host, self._names):
            return None
        return f"{host!r} is not a name of this node: use its address, or name it in {SETTING}"


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether the `Host` of a request is one that no stranger can point here: an address, `localhost`, a name without a
    dot, or one of `names`, which are in lower case (`*`: any).
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    name = name.lower().rstrip(".")
    if "*" in names or (name and name in names):
        return True
    if "." not in name and ":" not in name:
        return bool(name)
    return name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
