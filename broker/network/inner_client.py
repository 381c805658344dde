"""A client without a connection of its own: its requests come within something else, and go the way of all others.

That is a request in an Envelope of another broker, or a form of the console.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.network.request import CloseConnectionError, Principal


@dataclass(eq=False, slots=True)
class InnerClient:
    """The client, as dispatch and handlers see it (`broker.network.dispatch.Client`)."""

    listener_name: str
    principal: Principal
    client_host: str
    client_address: str
    client_port: int = 0
    client_software: tuple[str, str] = ("unknown", "unknown")
    client_id: str | None = None
    permissions: Any = None
    is_forwarded: bool = True
    repeated: Any = None
    last_active_ms: float = 0.0
    throttled_ms: list[int] = field(default_factory=list)

    def spent_ms(self) -> float:
        """Nothing: whoever has the connection counts that."""
        return 0.0

    def throttle(self, throttle_ms: int) -> None:
        """Whoever has the connection holds the client back: the answer says for how long."""
        self.throttled_ms.append(throttle_ms)

    def handle_no_more(self) -> None:
        """A fault has lost the request, or the answer: there is none."""
        raise CloseConnectionError("a fault that is set has lost it")

    def replace_transport(self, _around: Any) -> None:
        self.handle_no_more()
