"""The server-side assignors of KIP-848: which member gets which partitions, keeping as many of its own as possible."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coordinator.group.consumer.assignors.range import assign as assign_range
from coordinator.group.consumer.assignors.spec import Assign
from coordinator.group.consumer.assignors.uniform import assign as assign_uniform

ASSIGNORS: Mapping[str, Assign] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""By the names that members ask for; the first is the default (group.consumer.assignors)."""
