"""The quota that applies to a client, of all that are set (`ClientQuotaManager`'s default callback)."""

from __future__ import annotations

from typing import NamedTuple

from broker.quotas.entities import DEFAULT, Entity


class Tags(NamedTuple):
    """The clients whose use is counted together: of a user, a client id, or both; the other part is empty."""

    user: str
    client_id: str


class Limits:
    """The quotas of one type, by whom they apply to."""

    def __init__(self) -> None:
        self._by_entity: dict[tuple[str | None, str | None], float] = {}

    def __bool__(self) -> bool:
        return bool(self._by_entity)

    def put(self, entity: Entity, limit: float | None) -> None:
        """Set, or with None remove, the limit of a user, a client id or both."""
        if limit is None:
            self._by_entity.pop((entity.user, entity.client_id), None)
        else:
            self._by_entity[entity.user, entity.client_id] = limit

    def of(self, user: str, client_id: str) -> tuple[Tags, float] | None:
        """The first of Kafka's eight levels that is set. A client without an id only has the quotas of its user."""
        limits = self._by_entity
        if not limits:
            return None
        both, user_alone = (user, client_id), (user, None)
        if client_id:
            for entity in (both, (user, DEFAULT)):
                if entity in limits:
                    return Tags(user, client_id), limits[entity]
        if user_alone in limits:
            return Tags(user, ""), limits[user_alone]
        if client_id:
            for entity in ((DEFAULT, client_id), (DEFAULT, DEFAULT)):
                if entity in limits:
                    return Tags(user, client_id), limits[entity]
        if (DEFAULT, None) in limits:
            return Tags(user, ""), limits[DEFAULT, None]
        if client_id:
            for level in ((None, client_id), (None, DEFAULT)):
                if level in limits:
                    return Tags("", client_id), limits[level]
        return None
