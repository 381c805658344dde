"""What all kinds of schemas have in common, and what work with a schema may cost.

Whoever may register a schema decides what it costs to compare it with others: two small schemas with many alternatives
have millions of pairs. So work is counted, and what costs too much is refused as a schema, with status 422. All of it
is done in threads; none of it may wait for anything.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.registry.errors import invalid_schema
from broker.registry.records import Reference
from odradek.schemas.json_text import json_of

T = TypeVar("T")

MOST_WORK = 400_000
"""Comparisons for one request: a second or two."""

MOST_PARTS = 20_000
"""JSON values in a schema."""

MOST_REFERENCES = 1000
"""Schemas that one needs, with all that those need."""

LONGEST_TEXT = 900_000
"""Characters of a schema: a record of Kafka has a megabyte by default."""

LONGEST_NEEDED = 4_000_000
"""Characters of those that it needs."""

STRICT, LENIENT = "STRICT", "LENIENT"
POLICIES = (STRICT, LENIENT)


class Work:
    """Counts what is done for one request."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self._left = most

    def spend(self, units: int = 1) -> None:
        """Raises RegistryError when it is too much."""
        self._left -= units
        if self._left < 0:
            raise invalid_schema("The schemas are too complex to be compared: they have too many alternatives")


class Needed(NamedTuple):
    """A schema that another one refers to, by the name in the reference."""

    name: str
    text: str
    reference: Reference


class Given(NamedTuple):
    """A schema as somebody wrote it. `needed` are those that it refers to, each after those that it needs itself."""

    text: str
    references: tuple[Reference, ...] = ()
    needed: tuple[Needed, ...] = ()


class Parsed(Protocol):
    """A schema of some kind.

    Attributes:
        text: as the registry keeps it.
        meaning: the same for schemas that differ in what has no meaning, such as spaces.
    """

    @property
    def text(self) -> str: ...

    @property
    def meaning(self) -> str: ...

    def normalized(self) -> str:
        """The text, the same also for schemas that differ in the order of what has no order."""

    def formatted(self, name: str) -> str:
        """The text in another format; the usual one if the kind does not have that format."""

    def problems(self, writer: Any, policy: str, work: Work) -> list[str]:
        """Why this schema cannot read what `writer`, of the same kind, has written; empty if it can."""


Parse = Callable[[Given], Parsed]
"""Raises RegistryError."""


def without_overflow(work: Callable[[], T]) -> T:
    """The result of work that calls itself for each level of a schema. Raises RegistryError if those are too many."""
    try:
        return work()
    except RecursionError:
        raise invalid_schema("The schema has too many levels") from None


def read_json(text: str) -> Any:
    """The value of a schema's text, if it is not too large. Raises RegistryError."""
    try:
        value = json_of(text)
    except ValueError as error:
        raise invalid_schema(f"The schema is no JSON: {error}") from error
    left = MOST_PARTS
    level = [value]
    while level:
        left -= len(level)
        if left < 0:
            raise invalid_schema(f"The schema has more than {MOST_PARTS} values")
        if not all(isfinite(each) for each in level if isinstance(each, float)):
            raise invalid_schema("The schema is no JSON: it has a number that is none, or is too large")
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
    return value
