"""What the metadata store has under one prefix, as a dict in memory that is kept up to date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from broker.metadata.store import Change, MetadataStore

K = TypeVar("K")
Entry = Mapping[str, Any]
NOTHING: Entry = MappingProxyType({})


class StoredEntries(Generic[K]):
    """JSON objects by key. Reads are from memory, and see a change as soon as the call that made it returns.

    `path` gives the place of a key's entry below `prefix`; `key` is its inverse. An empty entry counts as absent.
    """

    def __init__(self, store: MetadataStore, prefix: str, path: Callable[[K], str], key: Callable[[str], K]) -> None:
        self._store = store
        self._prefix = prefix
        self._path = path
        self._key = key
        self._entries: dict[K, Entry] = {}
        self._versions: dict[K, int] = {}
        self._listeners: list[Callable[[K], None]] = []

    async def open(self) -> None:
        """Read the stored entries, and follow the store from then on."""
        self._store.watch(self._prefix, self._on_change)
        self._on_change(Change(self._store.revision, await self._store.list(self._prefix)))

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> Entry:
        return self._entries.get(key, NOTHING)

    def subscribe(self, listener: Callable[[K], None]) -> None:
        """Call `listener` with each changed key, once the whole of its commit is visible here."""
        self._listeners.append(listener)

    async def set(self, entries: Mapping[K, Entry]) -> None:
        """Replace all the entries or none; an empty one is removed.

        Raises VersionConflictError if another writer came between (see `retrying`), and MetadataStoreError.
        """
        if entries:
            await self._store.commit(
                {self._prefix + self._path(key): self._versions.get(key, 0) for key in entries},
                {self._prefix + self._path(key): json.dumps(dict(new)).encode() for key, new in entries.items() if new},
                [self._prefix + self._path(key) for key, new in entries.items() if not new and key in self._entries],
            )

    def _on_change(self, change: Change) -> None:
        changed = {self._key(path.removeprefix(self._prefix)): new for path, new in change.keys.items()}
        for key, versioned in changed.items():
            if versioned is None:
                self._entries.pop(key, None)
                self._versions.pop(key, None)
            else:
                self._entries[key] = MappingProxyType(json.loads(versioned.value))
                self._versions[key] = versioned.version
        for key in changed:
            for listener in tuple(self._listeners):
                listener(key)
