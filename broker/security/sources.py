"""The sources that secure listeners need: the credentials of users, and what else logins are checked against."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from broker.network.request import USER, Principal
from controller.scram import ScramMechanism
from protocol.metadata.credentials import UserScramCredentialRecord
from storage.workers import Workers
from timing.clock import Clock


class SecurityError(ValueError):
    """A store, a file or a setting cannot be used; the text names it and says what to do, and has nothing secret."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The server's knowledge of a user or of a delegation token, whose owner then is the principal."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    owner: Principal
    expires_ms: int | None = None


Found = ScramCredential | None
FindCredential = Callable[[str, bool], Found | Awaitable[Found]]
"""The credential of a user, or if the second argument is true of the delegation token with that id."""


def user_credential(record: UserScramCredentialRecord) -> ScramCredential:
    """The credential of a user, as the metadata has it."""
    owner = Principal(USER, record.name)
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations, owner)


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that the mechanisms ask.

    Attributes:
        find_scram: the credential of a user; if the last argument is true, of the delegation token with that id.
        scram_salt: that of a user of the settings, which is always the same.
        workers: where keys of tokens are read.
    """

    clock: Clock
    random: Random
    workers: Workers
    find_scram: Callable[[ScramMechanism, str, bool], Found | Awaitable[Found]]
    scram_salt: Callable[[ScramMechanism, str], bytes]
