"""What stays open in a body that `fuzz` draws for two brokers, until it is sent to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOBODYS = 1 << 40
"""A producer id that no broker has given out."""
LONGEST = "x" * 239
"""With the prefix, as long as a topic's name may be."""
TOPICS = {"a": 3, "b": 1}
"""Topics that every session starts with, and their partitions; "c" and "missing" may come to be."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a broker gave out under this name, or the default if it did not."""

    kind: str
    name: str
    default: Any = None
    plus: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """A name of this run: the prefix comes before it."""

    short: str


@dataclass(frozen=True, slots=True)
class Time:
    """Milliseconds after the run's time."""

    after: int


@dataclass(frozen=True, slots=True)
class Batch:
    """`batches.batch` of these fields; then `flip` turns over one bit, or `cut` shortens it, at that fraction of it."""

    records: int
    fields: dict[str, Any]
    flip: float | None = None
    cut: float | None = None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The subscription of a classic member to a topic, and the partitions that it says it owns."""

    topic: str
    owned: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """The share that the leader of a classic group gives a member."""

    topic: str
    partitions: tuple[int, ...]
