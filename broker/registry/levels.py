"""Compatibility levels: which earlier versions a new one is compared with, and who must read what whom has written.

| level    | must read what the other has written     | compared with               |
| -------- | ---------------------------------------- | --------------------------- |
| NONE     | nobody                                   | nothing                     |
| BACKWARD | the new schema                           | the latest version          |
| FORWARD  | the earlier one                          | the latest version          |
| FULL     | both                                     | the latest version          |
| `_TRANSITIVE` after one of these: the same | all versions that are not deleted, latest first       |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from broker.registry.formats.parsed import Parsed, Work


class Level(NamedTuple):
    """`backward`: the new schema reads; `forward`: the earlier one does; `is_transitive`: for all versions."""

    backward: bool
    forward: bool
    is_transitive: bool


LEVELS = {
    "NONE": Level(False, False, False),
    "BACKWARD": Level(True, False, False),
    "BACKWARD_TRANSITIVE": Level(True, False, True),
    "FORWARD": Level(False, True, False),
    "FORWARD_TRANSITIVE": Level(False, True, True),
    "FULL": Level(True, True, False),
    "FULL_TRANSITIVE": Level(True, True, True),
}


class Earlier(NamedTuple):
    """A version to compare with; `schema` parses it."""

    version: int
    kind: str
    schema: Callable[[], Parsed]


def problems(level: str, policy: str, kind: str, new: Parsed, earlier: Sequence[Earlier], work: Work) -> list[str]:
    """Why the new schema may not follow the earlier ones, which are in ascending order; empty if it may."""
    rule = LEVELS[level]
    if not earlier or not (rule.backward or rule.forward):
        return []
    for other in reversed(earlier if rule.is_transitive else earlier[-1:]):
        found = _between(rule, policy, kind, new, other, work)
        if found:
            return [*found, f"{{oldSchemaVersion: {other.version}}}", f"{{compatibility: '{level}'}}"]
    return []


def _between(rule: Level, policy: str, kind: str, new: Any, other: Earlier, work: Work) -> list[str]:
    if kind != other.kind:
        return ["Incompatible because of different schema type"]
    old: Any = other.schema()
    found = new.problems(old, policy, work) if rule.backward else []
    return found + (old.problems(new, policy, work) if rule.forward else [])
