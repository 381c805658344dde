"""Whom a quota applies to (Kafka's `ClientQuotaEntity`), and which quotas exist (`QuotaConfig`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from urllib.parse import quote, unquote

USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT = ""
"""The name for all who have no quota of their own; null on the wire, and never a real name."""

_STORED_DEFAULT = "<default>"
_FOLDERS = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
_TYPES = {folder: entity_type for entity_type, folder in _FOLDERS.items()}


@dataclass(frozen=True, slots=True)
class Entity:
    """A user, a client id, both, or an address; a part that is not named is None."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> Iterator[tuple[str, str]]:
        """(type, name) of each part that is named."""
        for entity_type, name in ((CLIENT_ID, self.client_id), (USER, self.user), (IP, self.ip)):
            if name is not None:
                yield entity_type, name

    def path(self) -> str:
        """Its key in the metadata store: `clients/<default>/users/u`, with special characters in names escaped."""
        return "/".join(
            f"{_FOLDERS[entity_type]}/{quote(name, safe='') or _STORED_DEFAULT}" for entity_type, name in self.parts()
        )

    @classmethod
    def at(cls, path: str) -> Entity:
        """The inverse of `path`."""
        words = path.split("/")
        names = {
            _TYPES[folder].replace("-", "_"): DEFAULT if name == _STORED_DEFAULT else unquote(name)
            for folder, name in zip(words[::2], words[1::2], strict=True)
        }
        return cls(**names)


class QuotaType(StrEnum):
    """The quotas that users and clients may have, named as in Kafka's metrics (`QuotaType`)."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


CONNECTION_RATE = "connection_creation_rate"
QUOTA_TYPES = {
    "producer_byte_rate": QuotaType.PRODUCE,
    "consumer_byte_rate": QuotaType.FETCH,
    "request_percentage": QuotaType.REQUEST,
    "controller_mutation_rate": QuotaType.CONTROLLER_MUTATION,
}


class Number(Enum):
    """The type of a quota's value, and the largest double that Kafka accepts for it."""

    LONG = float(2**63 - 1)
    INT = float(2**31 - 1)
    DOUBLE = float("inf")


USER_AND_CLIENT_KEYS = {
    "producer_byte_rate": Number.LONG,
    "consumer_byte_rate": Number.LONG,
    "request_percentage": Number.DOUBLE,
    "controller_mutation_rate": Number.DOUBLE,
}
IP_KEYS = {CONNECTION_RATE: Number.INT}
