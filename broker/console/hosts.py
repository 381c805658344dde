"""Names under which a browser may know the console."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether the `Host` of a request is one that no stranger can point here: an address, `localhost`, a name without a
    dot, or one of `names` (`*`: any).
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    name = name.lower().rstrip(".")
    if "*" in names or name in {each.lower() for each in names}:
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
