"""Whom a quota applies to (Kafka's `ClientQuotaEntity`), and which types of quotas there are (`QuotaType`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.quotas import CLIENT_ID, IP, USER
from metadata.settings import QuotaKey

DEFAULT = ""
"""The name for all who have no quota of their own; never a real name."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A user, a client id, both, or an address; a part that is not named is None."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @classmethod
    def of(cls, key: QuotaKey) -> Entity:
        named = {entity_type: DEFAULT if name is None else name for entity_type, name in key}
        return cls(named.get(USER), named.get(CLIENT_ID), named.get(IP))


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
