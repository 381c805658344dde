"""One fault that is set: what it matched so far, and who waits for that."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.faults.spec import FaultSpec

MOST_REQUESTS = 1000
"""How many of the last requests are kept."""

Waiting = tuple[int, "Future[bool]"]


@dataclass(eq=False, slots=True)
class Fault:
    """A fault with its state.

    Attributes:
        id: tells it from all others, also from those of earlier starts.
        matched: requests that matched and were not skipped; they count for `count` from then on.
        hits: how often it struck, in its phase.
        requests: the last requests that it struck, decoded, as JSON values.
    """

    id: str
    spec: FaultSpec
    skipped: int = 0
    matched: int = 0
    hits: int = 0
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_REQUESTS))
    _waiting: list[Waiting] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether it may strike another request."""
        return self.spec.count is None or self.matched < self.spec.count

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
        """Note a hit, and tell who waits for so many."""
        self.hits += 1
        self.requests.append(request)
        reached = [one for one in self._waiting if one[0] <= self.hits]
        for one in reached:
            self._waiting.remove(one)
            if not one[1].done():
                one[1].set_result(True)

    def when_hit(self, hits: int, future: Future[bool]) -> None:
        """Resolve `future` as soon as there are so many hits."""
        if self.hits >= hits:
            future.set_result(True)
        else:
            self._waiting.append((hits, future))
