"""Messages that kio has no class for, in the form of kio's: of Kafka 4.4, made from the published schemas, and our own.

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
        (18, 5): "api_versions_v5",
        (28, 6): "txn_offset_commit_v6",
        (42, 3): "delete_groups_v3",
        (88, 1): "streams_group_heartbeat_v1",
        (89, 1): "streams_group_describe_v1",
        (93, 0): "streams_group_topology_description_update_v0",
        (94, 0): "unregister_controller_v0",
        (31001, 0): "explain_v0",
        (31002, 0): "create_backup_v0",
    }
)
HANDLED: Mapping[int, str] = MappingProxyType({8: "offset_commit", 9: "offset_fetch", 28: "txn_offset_commit"})


def load(name: str) -> Any:
    """The module of that name in this package."""
    return import_module(f"{__name__}.{name}")
