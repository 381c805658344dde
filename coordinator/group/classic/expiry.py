"""What the waits of classic groups have in common: when they expire, a message is sent to the shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from timing.purgatory import DelayedOperation


class ExpiryAsMessage(DelayedOperation):
    """A wait whose expiry `expired(operation)` passes on as a message. Subclasses may end in other ways too."""

    __slots__ = ("_expired",)

    def __init__(self, expired: Callable[[Any], None]) -> None:
        super().__init__()
        self._expired = expired

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Do nothing: whatever ends the wait takes the next step itself."""

    def on_expiration(self) -> None:
        self._expired(self)
