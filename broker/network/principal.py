"""Who a client is, once its connection has shown it (Kafka's `KafkaPrincipal`)."""

from __future__ import annotations

from dataclasses import dataclass, field

USER = "User"
"""The type of every principal that a broker makes of a certificate, a password or a token."""


class UnknownClientError(Exception):
    """The certificate of a client does not say who it is."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal. `token_authenticated`: it came with a delegation token, and so may not make further ones; as in
    Kafka it is the same principal nevertheless.
    """

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client of a plaintext listener, or of a TLS listener that asks for no certificate."""
