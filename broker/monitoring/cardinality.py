"""Bounds the series of a metric: so many topics, groups and clients have their own, the rest are summed as `other`.

Those that came first keep their own series, as long as they exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

OTHER = "other"
FIRST_LABEL = slice(0, 1)

K = TypeVar("K", bound=Hashable)
Rows = Iterable[tuple[tuple[str, ...], float]]
"""Pairs of label values and a number."""


@dataclass(frozen=True, slots=True)
class Most:
    """How many have their own series (`odradek.metrics.max.topics`, `odradek.metrics.max.clients`)."""

    topics: int = 1000
    clients: int = 1000


def first(names: Iterable[K], most: int) -> frozenset[K]:
    """The first names that differ, as many as may have their own series."""
    found: dict[K, None] = {}
    for name in names:
        if len(found) == most and name not in found:
            break
        found[name] = None
    return frozenset(found)


def bounded(rows: Rows, most: int, key: slice = FIRST_LABEL) -> Rows:
    """The rows whose labels `key` are among the first; the others as one, `other`: their sum, without more labels."""
    rows = list(rows)
    own = first((labels[key] for labels, _ in rows), most)
    result: dict[tuple[str, ...], float] = defaultdict(float)
    for labels, value in rows:
        if labels[key] in own:
            result[labels] += value
        else:
            places = range(len(labels))
            result[tuple(OTHER if place in places[key] else "" for place in places)] += value
    return result.items()
