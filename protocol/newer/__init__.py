"""Messages of Kafka 4.4 that kio has no class for, in the form of kio's, made from the published schemas.

`MODULES` are whole versions that kio lacks: each module has the `REQUEST` and the `RESPONSE` of one. `HANDLED` are the
classes that handlers take and give where versions differ by how a topic is named: they have the name and the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

MODULES: Mapping[tuple[int, int], str] = MappingProxyType(
    {
        (88, 1): "streams_group_heartbeat_v1",
        (89, 1): "streams_group_describe_v1",
        (93, 0): "streams_group_topology_description_update_v0",
    }
)
HANDLED: Mapping[int, str] = MappingProxyType({})


def load(name: str) -> Any:
    """The module of that name in this package."""
    return import_module(f"{__name__}.{name}")
