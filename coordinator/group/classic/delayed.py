"""What a classic group as a whole waits for: the end of the join phase and of the sync phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from coordinator.group.classic.expiry import ExpiryAsMessage
from coordinator.group.classic.group import ClassicGroup


class DelayedJoin(ExpiryAsMessage):
    """The join phase: over when all members have joined, at the latest after the rebalance timeout.

    `over` ends the phase at once.
    """

    __slots__ = ("_all_joined", "_group", "_over")

    def __init__(
        self, group: ClassicGroup, over: Callable[[ClassicGroup], None], expired: Callable[[Self], None]
    ) -> None:
        super().__init__(expired)
        self._group = group
        self._over = over
        self._all_joined = False

    def try_complete(self) -> bool:
        if not self._group.all_joined:
            return False
        self._all_joined = True
        return self.force_complete()

    def on_complete(self) -> None:
        if self._all_joined:
            self._over(self._group)


class InitialDelayedJoin(ExpiryAsMessage):
    """One span of the initial delay of a group that was empty: joins do not end it, since more members may come.

    After `delay_ms` another span follows if somebody joined meanwhile, as long as `remaining_ms` of the rebalance
    timeout allow.
    """

    __slots__ = ("delay_ms", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int, expired: Callable[[Self], None]) -> None:
        super().__init__(expired)
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms


class DelayedSync(ExpiryAsMessage):
    """The sync phase of one generation: over when all members have sent a SyncGroup, at the latest after the rebalance
    timeout."""

    __slots__ = ("_group", "generation")

    def __init__(self, group: ClassicGroup, expired: Callable[[Self], None]) -> None:
        super().__init__(expired)
        self.generation = group.generation
        self._group = group

    def try_complete(self) -> bool:
        return not self._group.pending_sync and self.force_complete()
