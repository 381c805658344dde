"""What a classic group as a whole waits for: the ends of the join phase and of the sync phase."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.group.classic.group import ClassicGroup
from timing.purgatory import DelayedOperation


class DelayedJoin(DelayedOperation):
    """The join phase: over when all members have joined, at the latest after the rebalance timeout.

    `over` ends the phase at once. `expired(operation)` passes the expiry on as a message.
    """

    __slots__ = ("_all_joined", "_expired", "_group", "_over")

    def __init__(
        self, group: ClassicGroup, over: Callable[[ClassicGroup], None], expired: Callable[[DelayedJoin], None]
    ) -> None:
        super().__init__()
        self._group = group
        self._over = over
        self._expired = expired
        self._all_joined = False

    def try_complete(self) -> bool:
        if not self._group.all_joined:
            return False
        self._all_joined = True
        return self.force_complete()

    def on_complete(self) -> None:
        if self._all_joined:
            self._over(self._group)

    def on_expiration(self) -> None:
        self._expired(self)


class InitialDelayedJoin(DelayedOperation):
    """A span of the join phase of a group that was empty: no member's joining ends it, since more may come.

    After `delay_ms`, another span follows if somebody joined meanwhile, within the `remaining_ms` of the rebalance
    timeout.
    """

    __slots__ = ("_expired", "delay_ms", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int, expired: Callable[[InitialDelayedJoin], None]) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms
        self._expired = expired

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Do nothing: what follows is decided on expiry."""

    def on_expiration(self) -> None:
        self._expired(self)


class DelayedSync(DelayedOperation):
    """The sync phase of one generation: over when all members have sent a SyncGroup, at the latest after the rebalance
    timeout, when `expired(operation)` passes the expiry on as a message."""

    __slots__ = ("_expired", "_group", "generation")

    def __init__(self, group: ClassicGroup, expired: Callable[[DelayedSync], None]) -> None:
        super().__init__()
        self.generation = group.generation
        self._group = group
        self._expired = expired

    def try_complete(self) -> bool:
        return not self._group.pending_sync and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing more."""

    def on_expiration(self) -> None:
        self._expired(self)
