"""Messages that kio has no class for, in the form of kio's: of Kafka 4.4, made from the published schemas, and our own.

`MODULES` are whole versions that kio lacks. `HANDLED` are the classes that handlers take and give where versions differ
by how a topic is named: they have the name and the id. Both say where the messages are: `module:name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

MODULES: Mapping[tuple[int, int], str] = MappingProxyType(
    {
        (18, 5): "api_versions:ApiVersions",
        (28, 6): "txn_offsets:TxnOffsetCommit6",
        (42, 3): "admin:DeleteGroups",
        (88, 1): "streams:StreamsGroupHeartbeat",
        (89, 1): "streams:StreamsGroupDescribe",
        (93, 0): "streams:StreamsGroupTopologyDescriptionUpdate",
        (94, 0): "admin:UnregisterController",
        (31001, 0): "admin:Explain",
        (31003, 0): "registry:AskRegistry",
        (31002, 0): "admin:CreateBackup",
    }
)
HANDLED: Mapping[int, str] = MappingProxyType(
    {8: "offsets:OffsetCommit", 9: "offsets:OffsetFetch", 28: "txn_offsets:TxnOffsetCommit"}
)


class Messages(NamedTuple):
    """The two classes of an API."""

    REQUEST: Any
    RESPONSE: Any


def load(place: str) -> Messages:
    """The messages at a place in this package."""
    module, name = place.split(":")
    loaded = import_module(f"{__name__}.{module}")
    return Messages(getattr(loaded, f"{name}Request"), getattr(loaded, f"{name}Response"))
