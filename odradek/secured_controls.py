"""The controls of a broker, or of several, whose clients may need TLS or a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.controls import Controls
from odradek.security import Security


class SecuredControls(Controls):
    """Knows what clients need to get in."""

    _security: Security | None = None

    def client_config(
        self, kind: str, *, user: str | None = None, mechanism: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """The configuration of a client: of "aiokafka", "confluent", "kafka-python" or "java"; `more` is added.

        `user` is one of the `users` of a broker with security, by default the first; `mechanism` is PLAIN (the
        default), SCRAM-SHA-256 or SCRAM-SHA-512.
        """
        found = super().client_config(kind)
        if self._security is not None:
            found |= self._security.client_config(kind, user, mechanism)
        elif user is not None or mechanism is not None:
            raise ValueError("user and mechanism: expected none, as the broker was made without security")
        return found | more

    @property
    def ca_file(self) -> Path:
        """The certificate (PEM) of the authority that clients trust; RuntimeError without TLS."""
        if self._security is None or not self._security.uses_tls:
            raise RuntimeError("the broker was not made with security='SASL_SSL' or 'SSL'")
        return self._security.ca_file
