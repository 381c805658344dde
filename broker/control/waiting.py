"""Waits of the control interface: until something is so, told of changes, and at most as long as the caller says.

The time is the caller's, that is, real time of the event loop: a test that waits five seconds does so whatever it does
to the broker's clock. It is the only time in the node that is not the clock's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from broker.control.endpoint import ControlError, Kind, Parameter
from timing.clock import Clock

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 5.0
TIMED_OUT = 408
"""The status of a response after a wait in vain; its error says what was waited for, and how things are."""

TIMEOUT = Parameter("timeout", Kind.NUMBER, f"the longest wait, in seconds (default {DEFAULT_TIMEOUT_S:g})", least=0)

Listen = Callable[[Callable[[], None]], Callable[[], None]]
"""Has a function called at each change from now on; returns the function that ends this."""


class Changes:
    """What a wait listens to: each source is followed once, until the wait is over."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._ends: dict[Hashable, Callable[[], None]] = {}

    def follow(self, source: Hashable, listen: Listen) -> None:
        """Look again whenever the source changes, to which `listen` listens."""
        if source not in self._ends:
            self._ends[source] = listen(self._happened.set)

    def look_again(self, clock: Clock, delay_ms: float) -> None:
        """Look again after a while, though no source may have changed."""
        if "time" in self._ends:
            self._ends.pop("time")()
        self._ends["time"] = clock.call_later(delay_ms, self._happened.set).cancel

    def end(self) -> None:
        for end in self._ends.values():
            end()

    def clear(self) -> None:
        self._happened.clear()

    async def next(self, timeout_s: float) -> None:
        """Return at the next change, or when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._happened.wait()
        except TimeoutError:
            return


async def wait_until(
    look: Callable[[Changes], Awaitable[T | None]],
    reached: Callable[[T], bool],
    failed: Callable[[T | None], str],
    timeout_s: float,
) -> T:
    """What `look` finds once it is what was waited for.

    `look` gives the present state, None while nobody tells it, and names the sources of its changes. Raises
    ControlError (408) with `failed` of the last state when the time is over.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    changes = Changes()
    try:
        while True:
            changes.clear()
            found = await look(changes)
            if found is not None and reached(found):
                return found
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise ControlError(failed(found), status=TIMED_OUT)
            await changes.next(left_s)
    finally:
        changes.end()
