"""Configurations of groups (KIP-1226), set before anybody joins."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.runner import Talk

GROUP, SET = 32, 0


def configure_group(t: Talk, group_id: str, configs: Mapping[str, str]) -> None:
    """Set configurations of a group, and wait until they are told; their names have `_` for `.`."""
    entries = [
        {"name": name.replace("_", "."), "config_operation": SET, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group_id, "configs": entries}
    answer = t.main.call("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    assert answer["responses"][0]["error_code"] == "0 NONE", answer
    wanted = {"resource_type": GROUP, "resource_name": group_id, "configuration_keys": None}

    def told() -> bool:
        described = t.main.call("describe_configs", 4, {"resources": [wanted]})["results"][0]["configs"]
        values = {one["name"]: one["value"] for one in described}
        return all(values.get(entry["name"]) == entry["value"] for entry in entries)

    t.until("the group's configuration is there", told)
