"""SCRAM credentials of users (KIP-554; Kafka's `ScramControlManager`), in the metadata store at `/scram/<user>`.

They are stored and described, as in a Kafka without a SASL listener, but never used.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.metadata.store import MetadataStore, retrying
from broker.metadata.stored_entries import StoredEntries
from protocol.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnknownServerError,
    UnsupportedSaslMechanism,
)

PREFIX = "/scram/"
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384


class ScramMechanism(enum.IntEnum):
    """Kafka's `ScramMechanism`, numbered as on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletes one credential of a user; `mechanism` is the number on the wire, as in `Upsertion`."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A user's credential for one mechanism, new or replacing another."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


Alteration = Deletion | Upsertion


class ScramCredentials:
    """The credentials of all users. Reads are from memory, and see an alteration once the call making it returns."""

    def __init__(self, store: MetadataStore) -> None:
        self._users: StoredEntries[str] = StoredEntries(store, PREFIX, str, str)
        """Name of a mechanism to credential, by user."""

    @classmethod
    async def open(cls, store: MetadataStore) -> ScramCredentials:
        credentials = cls(store)
        await credentials._users.open()
        return credentials

    def users(self) -> list[str]:
        return list(self._users)

    def iterations(self, user: str) -> dict[ScramMechanism, int]:
        """The iterations of each of a user's credentials; empty for an unknown user."""
        stored = self._users.get(user)
        return {one: stored[one.name]["iterations"] for one in ScramMechanism if one.name in stored}

    def refusal(self, alteration: Alteration) -> KafkaError | None:
        """What is wrong with one alteration by itself."""
        if not alteration.user:
            return UnacceptableCredential("Username must not be empty")
        if alteration.mechanism not in list(ScramMechanism):
            return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
        if isinstance(alteration, Deletion):
            if alteration.mechanism not in self.iterations(alteration.user):
                return ResourceNotFound("Attempt to delete a user credential that does not exist")
        elif alteration.iterations < MIN_ITERATIONS:
            return UnacceptableCredential("Too few iterations")
        elif alteration.iterations > MAX_ITERATIONS:
            return UnacceptableCredential("Too many iterations")
        return None

    async def alter(self, alterations: Sequence[Alteration]) -> dict[str, KafkaError | None]:
        """The outcome of each user's alteration; those not refused become durable together.

        Raises MetadataStoreError.
        """
        return await retrying(lambda: self._alter(alterations))

    async def _alter(self, alterations: Sequence[Alteration]) -> dict[str, KafkaError | None]:
        outcome = self._outcome(alterations)
        await self._users.set({one.user: self._altered(one) for one in alterations if outcome[one.user] is None})
        return outcome

    def _outcome(self, alterations: Sequence[Alteration]) -> dict[str, KafkaError | None]:
        """Users in the order in which Kafka's controller decides on them: repeated ones when they come again."""
        outcome: dict[str, KafkaError | None] = {}
        for one in alterations:
            if one.user not in outcome:
                outcome[one.user] = self.refusal(one)
            elif outcome[one.user] is None:
                del outcome[one.user]
                outcome[one.user] = DuplicateResource("A user credential cannot be altered twice in the same request")
        for one in alterations:
            if isinstance(one, Upsertion) and not one.salted_password and outcome[one.user] is None:
                del outcome[one.user]
                outcome[one.user] = UnknownServerError()  # Java's cryptography rejects an empty key
        return outcome

    def _altered(self, alteration: Alteration) -> dict[str, Any]:
        """A user's credentials after an alteration that is not refused."""
        mechanism = ScramMechanism(alteration.mechanism)
        stored = {name: one for name, one in self._users.get(alteration.user).items() if name != mechanism.name}
        if isinstance(alteration, Upsertion):
            stored[mechanism.name] = _credential(mechanism, alteration)
        return stored


def _credential(mechanism: ScramMechanism, new: Upsertion) -> dict[str, Any]:
    """What a server stores (RFC 5802): neither password nor salted password can be derived from it."""
    client_key = hmac.digest(new.salted_password, b"Client Key", mechanism.digest)
    kept = {
        "salt": new.salt,
        "stored_key": hashlib.new(mechanism.digest, client_key).digest(),
        "server_key": hmac.digest(new.salted_password, b"Server Key", mechanism.digest),
    }
    return {name: b64encode(value).decode() for name, value in kept.items()} | {"iterations": new.iterations}
