"""What comparisons of all kinds of parts have in common: keywords that are numbers."""

from __future__ import annotations

from typing import Any, Protocol

from broker.registry.formats.json_nodes import Node
from broker.registry.formats.json_rules import Difference, Kind

Limits = tuple[tuple[str, Kind, Kind, Kind, Kind], ...]
"""A keyword with its kinds: added, removed, increased, decreased."""


def limits_of(*names: str) -> Limits:
    """The kinds of keywords such as `maxLength`, which are named like them."""
    table = []
    for name in names:
        base = "".join(f"_{char}" if char.isupper() else char.upper() for char in name)
        table.append((name, *(Kind[f"{base}_{end}"] for end in ("ADDED", "REMOVED", "INCREASED", "DECREASED"))))
    return tuple(table)  # type: ignore[arg-type]


class Compares(Protocol):
    """Compares parts; see `json_differences.Comparison`."""

    def compare(self, earlier: Node | None, later: Node | None, path: str) -> list[Difference]: ...

    def fits(self, found: list[Difference]) -> bool: ...


def compare_limits(limits: Limits, earlier: Node, later: Node) -> list[Difference]:
    """The differences in keywords that are numbers."""
    found = []
    for name, added, removed, increased, decreased in limits:
        before, after = number_of(earlier.values.get(name)), number_of(later.values.get(name))
        if before == after:
            continue
        if before is None or after is None:
            found.append(Difference(added if before is None else removed, f"/{name}"))
        else:
            found.append(Difference(increased if before < after else decreased, f"/{name}"))
    return found


def number_of(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
