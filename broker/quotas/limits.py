"""Whom quotas apply to, the limits that are set, and what is remembered of each client's use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from controller.quotas import CLIENT_ID, USER
from metadata.settings import QuotaKey

DEFAULT = ""
"""The name for all who have no quota of their own; never a real name."""


class QuotaType(StrEnum):
    """The quotas that users and clients may have, named as in Kafka's metrics (`QuotaType`)."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


QUOTA_TYPES = {
    "producer_byte_rate": QuotaType.PRODUCE,
    "consumer_byte_rate": QuotaType.FETCH,
    "request_percentage": QuotaType.REQUEST,
    "controller_mutation_rate": QuotaType.CONTROLLER_MUTATION,
}


class QuotaClient(NamedTuple):
    """A client by its user and its id, which is empty if there is none; or all of a user, or all with an id."""

    user: str
    client_id: str


class QuotaLimits:
    """The quotas of one type, by whom they apply to."""

    def __init__(self) -> None:
        self._by_entity: dict[tuple[str | None, str | None], float] = {}

    def __bool__(self) -> bool:
        return bool(self._by_entity)

    def put(self, key: QuotaKey, limit: float | None) -> None:
        """Set, or with None remove, the limit of a user, a client id or both."""
        named = {kind: DEFAULT if name is None else name for kind, name in key}
        entity = named.get(USER), named.get(CLIENT_ID)
        if limit is None:
            self._by_entity.pop(entity, None)
        else:
            self._by_entity[entity] = limit

    def of(self, user: str, client_id: str) -> tuple[QuotaClient, float] | None:
        """The limit, and the clients whose use is counted together: the first of Kafka's eight levels that is set.

        A client without an id only has the quotas of its user.
        """
        limits = self._by_entity
        if not limits:
            return None
        both, user_alone = (user, client_id), (user, None)
        if client_id:
            for entity in (both, (user, DEFAULT)):
                if entity in limits:
                    return QuotaClient(user, client_id), limits[entity]
        if user_alone in limits:
            return QuotaClient(user, ""), limits[user_alone]
        if client_id:
            for entity in ((DEFAULT, client_id), (DEFAULT, DEFAULT)):
                if entity in limits:
                    return QuotaClient(user, client_id), limits[entity]
        if (DEFAULT, None) in limits:
            return QuotaClient(user, ""), limits[DEFAULT, None]
        if client_id:
            for level in ((None, client_id), (None, DEFAULT)):
                if level in limits:
                    return QuotaClient("", client_id), limits[level]
        return None


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

INACTIVE_MS = 3_600_000
"""A sensor unused for this long, in ms, is dropped (`InactiveSensorExpirationTimeSeconds`)."""
MOST = 20_000
"""Sensors that are kept: a client may name itself differently in each request, and each name may have a limit."""


class Sensors(Generic[K, T]):
    """Sensors by client, each made when first used."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._sensors: OrderedDict[K, tuple[T, int]] = OrderedDict()
        """Each sensor with the time of its last use; the last used comes at the end."""

    def use(self, key: K, now_ms: int) -> T:
        """The sensor for `key`, made if unknown (Kafka's `SensorAccess.getOrCreate`); `now_ms` is monotonic."""
        known = self._sensors.get(key)
        if known is None:
            self._expire(now_ms)
        sensor = self._make() if known is None else known[0]
        self._sensors[key] = sensor, now_ms
        self._sensors.move_to_end(key)
        if len(self._sensors) > MOST:
            self._sensors.popitem(last=False)
        return sensor

    def items(self, now_ms: int) -> Iterator[tuple[K, T]]:
        self._expire(now_ms)
        return ((key, sensor) for key, (sensor, _) in self._sensors.items())

    def _expire(self, now_ms: int) -> None:
        while self._sensors:
            oldest, (_, used_ms) = next(iter(self._sensors.items()))
            if now_ms - used_ms <= INACTIVE_MS:
                return
            del self._sensors[oldest]
