"""The part of `immutables.Map` that metadata needs, by copying: for a Python that has no wheel of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Map(Mapping[K, V]):
    """A mapping that never changes. A change makes another one, and copies all of it."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = (), /) -> None:
        self._entries = dict(entries)
        self._hash: int | None = None

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, Map) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._entries.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Map({self._entries!r})"

    def set(self, key: K, value: V) -> Map[K, V]:
        """The map with another entry."""
        return Map({**self._entries, key: value})

    def delete(self, key: K) -> Map[K, V]:
        """The map without an entry. Raises KeyError."""
        changed = self.mutate()
        del changed[key]
        return changed.finish()

    def mutate(self) -> MapMutation[K, V]:
        """A copy to change; `finish` makes a map of it."""
        return MapMutation(self)


class MapMutation(dict[K, V]):
    """Entries on their way into a map."""

    def finish(self) -> Map[K, V]:
        return Map(self)
