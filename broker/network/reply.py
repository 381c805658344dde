"""The order of a connection's replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.dispatch import Buffers


class Reply:
    """A place in the order of replies, filled when its request is answered."""

    __slots__ = ("buffers", "done", "exclusive", "request_bytes")

    def __init__(self, exclusive: bool, request_bytes: int) -> None:
        self.exclusive = exclusive
        self.request_bytes = request_bytes
        self.done = False
        self.buffers: Buffers | None = None
