"""Hatch's build hook: in a wheel the node's packages lie inside `odradek`, so that it installs no other name.

An editable install needs nothing: `odradek.location` finds the packages in the checkout.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_PACKAGES = ("broker", "controller", "coordinator", "metadata", "protocol", "storage", "timing")


class NodeInside(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({name: f"odradek/_node/{name}" for name in NODE_PACKAGES})
