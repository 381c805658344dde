"""A connection of a listener with TLS or SASL: its client has to show who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.network.connection import Connection

if TYPE_CHECKING:
    from broker.network.ports import Accepts, Dispatches
    from broker.network.request import Principal


class SecuredConnection(Connection):
    """`max_frame_bytes` is the largest request until the client is known; None for that of known ones."""

    def __init__(
        self, server: Accepts, dispatcher: Dispatches, listener_name: str, max_frame_bytes: int | None
    ) -> None:
        super().__init__(server, dispatcher, listener_name)
        if max_frame_bytes is not None:
            self._frames.max_frame_bytes = max_frame_bytes
        self._is_known = False

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        if not self._is_known:
            self._server.note_bytes_of_stranger(self, self._frames.large_bytes)

    def authenticated(self, principal: Principal) -> None:
        """The client has shown who it is."""
        self.principal = principal
        self._is_known = True
        self._frames.max_frame_bytes = self._server.max_request_bytes
        self._server.authenticated(self)

    def close_after_reply(self) -> None:
        """Read no further request, and close once the reply that is being made is sent."""
        self._closing = True
