"""What a page is asked, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.console.rights import Rights
from broker.control.endpoint import ControlError
from broker.node import Node
from metadata.acls import ResourceType

if TYPE_CHECKING:
    from broker.console.history import History
    from broker.console.registry import Registry

NAMES_A_TURN = 200


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a page. `given` has the query's parameters; `registry` knows schemas, where one is set."""

    node: Node
    given: Mapping[str, str]
    rights: Rights
    history: History
    registry: Registry | None = None

    @property
    def can_write(self) -> bool:
        return self.node.local.config.boolean("odradek.console.write")

    def text(self, name: str, default: str = "") -> str:
        return self.given.get(name, default).strip()

    def name(self, parameter: str) -> str:
        """The name of what is looked at, exactly as it is. Raises ControlError if there is none."""
        if parameter not in self.given:
            raise ControlError(f"{parameter} is missing", parameter=parameter)
        return self.given[parameter]

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of these, by default the first. Raises ControlError."""
        value = self.text(name, choices[0]) or choices[0]
        if value not in choices:
            raise ControlError(f"{name} = {value!r}: expected one of {', '.join(choices)}", parameter=name)
        return value

    def integer(self, name: str, default: int = 0) -> int:
        """A whole number from 0 on. Raises ControlError."""
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdecimal()) or int(value[:20]) >= 1 << 63:
            raise ControlError(f"{name} = {value!r}: expected a whole number from 0 on", parameter=name)
        return int(value)


class Page(NamedTuple):
    """The template, the title, and the values that the template shows."""

    template: str
    title: str
    values: dict[str, Any]


async def allowed(rights: Rights, api: str, resource_type: ResourceType, names: list[str]) -> list[str]:
    """Those names of which the API would tell the user; the loop gets a turn in between."""
    if rights.are_all:
        return names
    found: list[str] = []
    for first in range(0, len(names), NAMES_A_TURN):
        found += (name for name in names[first : first + NAMES_A_TURN] if rights.allow(api, resource_type, name))
        await asyncio.sleep(0)
    return found


class Paging(NamedTuple):
    """A part of a list: `number` counts from 0; `rows` are those of this part, and `total` is the length of all."""

    number: int
    rows: list[Any]
    total: int
    size: int

    @property
    def first(self) -> int:
        return self.number * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.number * self.size + len(self.rows)

    @property
    def has_more(self) -> bool:
        return self.last < self.total


def paged(ask: Ask, rows: list[Any], size: int, parameter: str = "page") -> Paging:
    """The part of the rows that is asked for, or the last one there is."""
    last = max(len(rows) - 1, 0) // size
    number = min(ask.integer(parameter), last)
    return Paging(number, rows[number * size : (number + 1) * size], len(rows), size)
