"""AlterUserScramCredentials (KIP-554; Kafka's `ScramControlManager`)."""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from controller.decision import Decision, require_few_records
from metadata.image import MetadataImage
from protocol.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from protocol.metadata.credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
SALT_BYTES = 26
"""As many as Kafka takes."""


class ScramMechanism(enum.IntEnum):
    """Kafka's `ScramMechanism`, numbered as on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def digest(self) -> str:
        """The hash function, as `hashlib` names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def sasl_name(self) -> str:
        """Its name in SASL: SCRAM-SHA-256 or SCRAM-SHA-512."""
        return self.name.replace("_", "-")


SCRAM_MECHANISMS: Mapping[str, ScramMechanism] = MappingProxyType({each.sasl_name: each for each in ScramMechanism})
"""By their names in SASL."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Deletes one credential of a user; `mechanism` is the number on the wire, as in `ScramUpsertion`."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's credential for one mechanism, new or replacing another."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


Alteration = ScramDeletion | ScramUpsertion


def decide(image: MetadataImage, alterations: Sequence[Alteration]) -> Decision[list[tuple[str, KafkaError | None]]]:
    """The outcome of each user's alteration; a user with two of them gets none.

    Raises PolicyViolation for too many.
    """
    times = Counter(each.user for each in alterations)
    outcome: dict[str, KafkaError | None] = {}
    records: list[Any] = []
    for each in alterations:
        error = _refusal(image, each)
        if error is None and times[each.user] > 1:
            error = DuplicateResource("A user credential cannot be altered twice in the same request")
        if error is None and isinstance(each, ScramUpsertion) and not each.salted_password:
            error = UnacceptableCredential("Password must not be empty")
        outcome.setdefault(each.user, error)
        if error is None:
            records.append(_record(each))
            require_few_records(len(records))
    return Decision(records, list(outcome.items()))


def _refusal(image: MetadataImage, alteration: Alteration) -> KafkaError | None:
    if not alteration.user:
        return UnacceptableCredential("Username must not be empty")
    if alteration.mechanism not in list(ScramMechanism):
        return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(alteration, ScramDeletion):
        if (alteration.user, alteration.mechanism) not in image.scram:
            return ResourceNotFound("Attempt to delete a user credential that does not exist")
    elif alteration.iterations < MIN_ITERATIONS:
        return UnacceptableCredential("Too few iterations")
    elif alteration.iterations > MAX_ITERATIONS:
        return UnacceptableCredential("Too many iterations")
    return None


def _record(alteration: Alteration) -> Any:
    if isinstance(alteration, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=alteration.user, mechanism=alteration.mechanism)
    return credential(alteration)


def stretched(user: str, mechanism: ScramMechanism, password: str, salt: bytes) -> UserScramCredentialRecord:
    """The credential of a password, with the fewest iterations. Takes milliseconds."""
    return credential(salted(user, mechanism, password, salt, MIN_ITERATIONS))


def upsertion(
    user: str, mechanism: ScramMechanism, password: str, random: Random, iterations: int = MIN_ITERATIONS
) -> ScramUpsertion:
    """Return the upsertion that a client sends for a password, with a new salt. Takes milliseconds."""
    return salted(user, mechanism, password, random.randbytes(SALT_BYTES), iterations)


def salted(user: str, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramUpsertion:
    """The same with a given salt."""
    return ScramUpsertion(
        user, mechanism, iterations, salt, hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)
    )


def credential(new: ScramUpsertion) -> UserScramCredentialRecord:
    """Return the keys that a server stores (RFC 5802): neither password nor salted password can be derived from it."""
    digest = ScramMechanism(new.mechanism).digest
    client_key = hmac.digest(new.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=new.user,
        mechanism=new.mechanism,
        salt=new.salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(new.salted_password, b"Server Key", digest),
        iterations=new.iterations,
    )
