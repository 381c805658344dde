"""What the generated readers and writers have in common: lines of source, and the names used in them."""

from __future__ import annotations

from typing import Any

_STEP = "    "


class GeneratedSource:
    """The lines for one entity.

    `level` is the nesting depth of the entity: `entity0` is the message, `entity1` is inside it, read in its loop.
    Lines and names are those of the whole function; `depth` is the indentation of its outermost lines.
    """

    def __init__(self, level: int, depth: int, lines: list[str], names: dict[str, Any]) -> None:
        self._level = level
        self._lines = lines
        self._names = names
        self._margin = _STEP * (depth + level)

    def _name(self, value: Any) -> str:
        """A name by which the source can refer to `value`."""
        name = f"given{len(self._names)}"
        self._names[name] = value
        return name

    def _add(self, source: str) -> None:
        self._lines += [self._margin + line for line in source.splitlines()]
