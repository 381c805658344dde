"""What the generated readers and writers have in common: lines of source, and the names that these use."""

from __future__ import annotations

from typing import Any

_STEP = "    "


class GeneratedSource:
    """The lines for one entity.

    `level` is how deep it lies in others, its lines in their loops: `entity0` is the message, `entity1` in it.
    The lines and names are those of the whole function; `depth` is how deep its outermost lines are indented.
    """

    def __init__(self, level: int, depth: int, lines: list[str], names: dict[str, Any]) -> None:
        self._level = level
        self._lines = lines
        self._names = names
        self._margin = _STEP * (depth + level)

    def _name(self, value: Any) -> str:
        """A name for what the source refers to."""
        name = f"given{len(self._names)}"
        self._names[name] = value
        return name

    def _add(self, source: str) -> None:
        self._lines += [self._margin + line for line in source.splitlines()]
