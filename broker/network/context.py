"""What a handler gets besides its request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from protocol.api_table import API_BY_KEY
from protocol.messages import decode_request

if TYPE_CHECKING:
    from broker.node import Node
    from metadata.image import MetadataImage


class CloseConnectionError(Exception):
    """Closes the request's connection without an answer; the text is for the log."""


class Peer(Protocol):
    """The connection as handlers see it. `client_address` is its `client_host` as Java shows it."""

    listener_name: str
    client_host: str
    client_address: str
    client_port: int
    principal: str
    client_software: tuple[str, str]

    def spent_ms(self) -> float:
        """Milliseconds since the last call, or since the last data arrived or wait ended, whichever is later."""
        ...

    def throttle(self, throttle_ms: int) -> None:
        """Handle no further request for `throttle_ms` (KIP-219)."""
        ...


@dataclass(slots=True)
class RequestContext:
    """One request's surroundings.

    `version` is the requested API version, `body` the request as it came, without its header (empty for Produce and
    Fetch), `size` the number of bytes received, set only where a quota is set. A pipelined API sets `begun` to False if
    it could not do its part in the order of requests at once: then the next request has to wait.
    """

    node: Node
    connection: Peer
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: bytes = b""
    begun: bool = True
    size: int = 0
    _image: MetadataImage | None = None

    @property
    def image(self) -> MetadataImage:
        """What the cluster agrees on, as of the first time that this request asked: the same from start to end."""
        image = self._image
        if image is None:
            image = self._image = self.node.cache.image
        return image

    @property
    def raw(self) -> Any:
        """The request in kio's class of `version`, for fields that the newest version no longer has."""
        return decode_request(API_BY_KEY[self.api_key], self.version, self.body)
