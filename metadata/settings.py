"""Finalized features, quotas, credentials, ACLs and tokens: maps whose entries records put and remove.

Sources: Kafka's `FeaturesImage`, `ClientQuotasImage`, `ScramImage`, `AclsImage`, `DelegationTokenImage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from metadata.maps import Map
from protocol.metadata.topics import QuotaEntity

K = TypeVar("K")
V = TypeVar("V")

QuotaKey = tuple[tuple[str, str | None], ...]
"""(type, name) of each part of an entity with quotas, by type; the name None is the type's default."""

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
"""Unlike all other features it is no part of an image: its level is in a control record of the metadata log."""


def quota_key(entity: Iterable[QuotaEntity]) -> QuotaKey:
    return tuple(sorted((part.entity_type, part.entity_name) for part in entity))


class MapDelta(Generic[K, V]):
    """Changes of records to a map; `changed` has None for an entry that is gone."""

    __slots__ = ("_image", "changed")

    def __init__(self, image: Map[K, V]) -> None:
        self._image = image
        self.changed: dict[K, V | None] = {}

    def get(self, key: K) -> V | None:
        """The entry as it is now."""
        return self.changed[key] if key in self.changed else self._image.get(key)

    def put(self, key: K, value: V) -> None:
        self.changed[key] = value

    def remove(self, key: K) -> None:
        self.changed[key] = None

    def apply(self) -> Map[K, V]:
        entries = self._image.mutate()
        for key, value in self.changed.items():
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value
        return entries.finish()


def changed_quotas(current: Mapping[str, float] | None, record: Any) -> Map[str, float] | None:
    """An entity's quotas after a ClientQuotaRecord; None if there are none left."""
    quotas = dict(current or {})
    if record.remove:
        quotas.pop(record.key, None)
    else:
        quotas[record.key] = record.value
    return Map(quotas) if quotas else None


def changed_counts(counts: Map[str, int], tokens: Mapping[str, Any], changed: Mapping[str, Any]) -> Map[str, int]:
    """How many tokens each owner has after changes to `tokens`; None stands for a token that is gone."""
    after = counts.mutate()
    for token_id, token in changed.items():
        for each, step in ((tokens.get(token_id), -1), (token, 1)):
            if each is not None and (count := after.pop(each.owner, 0) + step):
                after[each.owner] = count
    return after.finish()
