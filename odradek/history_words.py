"""The words of histories: events, places, problems, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Place = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An anomaly: `kind` is lost, doubled, reordered or aborted; `text` says it in a sentence."""

    kind: str
    topic: str
    partition: int
    offset: int
    text: str


def shown(record: Event) -> str:
    """A record in a sentence."""
    return str(record.get("show") or record["digest"])


def name_of(place: Place) -> str:
    """`topic-partition`."""
    return f"{place[0]}-{place[1]}"
