"""What a fault that is set has struck so far, and who waits for that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.faults.spec import FaultSpec

MOST_REQUESTS = 1000
"""How many of the last requests are kept."""


@dataclass(eq=False, slots=True, kw_only=True)
class Counted:
    """Something that is set, and counts what it strikes.

    Attributes:
        id: tells it from all others, also from those of earlier starts.
        hits: how often it has struck.
        removed: it strikes no more.
    """

    id: str
    hits: int = 0
    removed: bool = False
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether it may strike again."""
        return not self.removed

    def hit(self) -> None:
        """Count a hit."""
        self.hits += 1
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` at each hit from now on; returns the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


@dataclass(eq=False, slots=True, kw_only=True)
class Fault(Counted):
    """A fault of requests with its state; a hit is a request that it struck, in its phase.

    Attributes:
        matched: requests that matched and were not skipped; they count for `count` from then on.
        requests: the last requests that it struck, decoded, as JSON values.
    """

    spec: FaultSpec
    skipped: int = 0
    matched: int = 0
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))

    @property
    def active(self) -> bool:
        return not self.removed and (self.spec.count is None or self.matched < self.spec.count)

    def claim(self) -> bool:
        """Count one more matching request; return whether the fault is to strike it."""
        if not self.active:
            return False
        if self.skipped < self.spec.skip:
            self.skipped += 1
            return False
        self.matched += 1
        return True

    def strike(self, request: dict[str, Any]) -> None:
        """Note a request that it strikes now."""
        self.requests.append(request)
        self.hit()
