"""Changes of a group's configuration (KIP-1226) for `fuzz`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.group_configs import GROUP, SET
from tools.fuzz.symbols import Named
from tools.fuzz.wild import Wild

API = "incremental_alter_configs"
DELETE = 1


def change(draw: Wild, group: str, values: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The body of an IncrementalAlterConfigs that sets or deletes one of these configurations."""
    name = draw.one(*values)
    entry = {"name": name, "config_operation": draw.one(SET, SET, SET, DELETE), "value": draw.one(*values[name])}
    resource = {"resource_type": GROUP, "resource_name": Named(group), "configs": [entry]}
    return {"resources": [resource], "validate_only": draw.chance(0.2)}
