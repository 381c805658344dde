"""Broker configuration changed at run time: per broker and for the whole cluster (KIP-226; `DynamicBrokerConfig`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from broker.metadata_store import Change, MetadataStore, Versioned

PREFIX = "/configs/brokers/"
CLUSTER_DEFAULT = ""
"""The resource name of what holds for every broker."""


class DynamicConfigs:
    """What the metadata store has under `/configs/brokers/<id>`, the cluster-wide one under `<default>`.

    `on_change` is called after every change, also one made elsewhere.
    """

    def __init__(self, store: MetadataStore, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._by_name: dict[str, dict[str, str]] = {}
        self._versions: dict[str, int] = {}

    @classmethod
    async def open(cls, store: MetadataStore, on_change: Callable[[], None]) -> DynamicConfigs:
        configs = cls(store, on_change)
        for key, versioned in (await store.list(PREFIX)).items():
            configs._put(key, versioned)
        store.watch(PREFIX, configs._changed)
        return configs

    def names(self) -> tuple[str, ...]:
        """The broker ids (as text) and, as the empty text, the cluster, that have dynamic configuration."""
        return tuple(self._by_name)

    def of(self, name: str) -> Mapping[str, str]:
        """The overrides of one broker (its id as text) or of the cluster (the empty text)."""
        return self._by_name.get(name, {})

    async def set(self, name: str, overrides: Mapping[str, str]) -> None:
        """Replaces all overrides of `name`. Raises VersionConflict when another writer came between."""
        key = _key(name)
        expected = {key: self._versions.get(key, 0)}
        if overrides:
            await self._store.commit(expected, {key: json.dumps(dict(overrides)).encode()}, ())
        else:
            await self._store.commit(expected, {}, (key,))

    def _changed(self, change: Change) -> None:
        for key, versioned in change.keys.items():
            self._put(key, versioned)
        self._on_change()

    def _put(self, key: str, versioned: Versioned | None) -> None:
        name = key.removeprefix(PREFIX)
        name = CLUSTER_DEFAULT if name == "<default>" else name
        if versioned is None:
            self._by_name.pop(name, None)
            self._versions.pop(key, None)
        else:
            self._by_name[name] = json.loads(versioned.value)
            self._versions[key] = versioned.version


def _key(name: str) -> str:
    return PREFIX + (name or "<default>")
