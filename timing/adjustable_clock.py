"""A clock that can be moved forward, stopped and set, over the machine's; used where the control interface is on.

How it works: while it runs, its readings are the machine's plus a shift. While it is held (frozen, or moved), they are
fixed. Its timers are in a heap by their deadlines, over one timer of the machine's clock.

Moving it forward goes from deadline to deadline: the clock stands at each while what is due there runs, and whatever
that begins comes to its end before the next. So what a timer sets runs in its turn, and what is written down has the
time at which it would have happened. What repeats (a search for expired offsets every few minutes, say) would run
millions of times in a year. It asks `pause_ms` when to run again, which within a move gives instants that lie twice as
far apart each time, the same ones for everything that repeats, and the end of the move as the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from timing.clock import Clock, Timer
from timing.report import report_exception

LEAST_PAUSE_MS = 1000.0
"""Within a move, what repeats runs this long after its beginning, or twice that, or four times, and so on."""
SOON_MS = 1.0
"""While time stands still, what is due within this runs all the same: it is what was to run at once, a tick later."""
FEW_CANCELLED = 64


class _Timer:
    __slots__ = ("_clock", "callback")

    def __init__(self, clock: AdjustableClock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._clock._note_cancelled()


@dataclass(slots=True)
class _Held:
    """The readings of a clock that stands still."""

    monotonic_ms: float
    wall_ms: float


@dataclass(frozen=True, slots=True)
class _Move:
    """A move that is under way, in monotonic readings."""

    begin_ms: float
    end_ms: float


class AdjustableClock:
    """`Clock` whose time somebody else may change. `machine` is the clock below, which nobody changes."""

    def __init__(self, machine: Clock) -> None:
        self.machine = machine
        self._shift_ms = 0.0
        self._wall_shift_ms = 0.0
        self._held: _Held | None = None
        self._frozen = False
        self._move: _Move | None = None
        self._moving = asyncio.Lock()
        self._heap: list[tuple[float, int, _Timer]] = []
        self._scheduled = 0
        self._cancelled = 0
        self._armed: Timer | None = None

    # -- Clock

    def monotonic_ms(self) -> float:
        held = self._held
        return self.machine.monotonic_ms() + self._shift_ms if held is None else held.monotonic_ms

    def wall_ms(self) -> int:
        return round(self._wall())  # a sum of fractions may miss by very little the time that was set

    def _wall(self) -> float:
        held = self._held
        return self.machine.wall_ms() + self._wall_shift_ms if held is None else held.wall_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer(self, callback)
        self._scheduled += 1
        heappush(self._heap, (self.monotonic_ms() + max(delay_ms, 0.0), self._scheduled, timer))
        if self._heap[0][2] is timer:
            self._arm()
        return timer

    async def sleep(self, delay_ms: float) -> None:
        if delay_ms <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    def pause_ms(self, period_ms: float) -> float:
        if self._move is None:
            return period_ms
        gone, left = self.monotonic_ms() - self._move.begin_ms, self._move.end_ms - self.monotonic_ms()
        if period_ms >= left:
            return period_ms
        instant = LEAST_PAUSE_MS
        while instant < gone + period_ms:
            instant *= 2
        return min(instant - gone, left)

    # -- changes

    @property
    def frozen(self) -> bool:
        """Whether time stands still until `resume`."""
        return self._frozen

    @property
    def ahead_ms(self) -> float:
        """How far its wall reading is ahead of the machine's."""
        return self._wall() - self.machine.wall_ms()

    async def freeze(self) -> None:
        """Let time stand still."""
        async with self._moving:
            self._frozen = True
            self._hold()
            self._arm()

    async def resume(self) -> None:
        """Let time go on from where it stands."""
        async with self._moving:
            self._frozen = False
            self._release()

    async def advance(self, ms: float, until_idle: Callable[[], Awaitable[None]]) -> None:
        """Move time by `ms`, not negative, and return once all that was due on the way has run.

        `until_idle` returns when what has begun so far is at its end.
        """
        async with self._moving:
            await self._advance(ms, until_idle)

    async def set_wall(self, wall_ms: float, until_idle: Callable[[], Awaitable[None]]) -> None:
        """Set the wall reading. Forward, time moves as by `advance`; back, only what is written down changes."""
        async with self._moving:
            ahead_ms = wall_ms - self._wall()
            if ahead_ms >= 0:
                await self._advance(ahead_ms, until_idle)
            elif self._held is not None:
                self._held.wall_ms = wall_ms
            else:
                self._wall_shift_ms = wall_ms - self.machine.wall_ms()

    async def reset(self) -> None:
        """Run again, with the machine's wall reading; deadlines that were set stay as they are."""
        async with self._moving:
            self._frozen = False
            self._release()
            self._wall_shift_ms = 0.0

    async def _advance(self, ms: float, until_idle: Callable[[], Awaitable[None]]) -> None:
        held = self._hold()
        wall_ms = held.wall_ms
        self._move = move = _Move(held.monotonic_ms, held.monotonic_ms + ms)

        def go_to(instant_ms: float) -> None:
            held.monotonic_ms = max(instant_ms, held.monotonic_ms)
            held.wall_ms = wall_ms + held.monotonic_ms - move.begin_ms

        try:
            await until_idle()
            while (deadline_ms := self._next_deadline_ms()) is not None and deadline_ms <= move.end_ms:
                go_to(deadline_ms)
                self._run_due()
                await until_idle()
            go_to(move.end_ms)
        finally:
            self._move = None
            if self._frozen:
                self._arm()
            else:
                self._release()

    def _hold(self) -> _Held:
        if self._held is None:
            self._held = _Held(self.monotonic_ms(), self._wall())
        return self._held

    def _release(self) -> None:
        if self._held is not None:
            self._shift_ms = self._held.monotonic_ms - self.machine.monotonic_ms()
            self._wall_shift_ms = self._held.wall_ms - self.machine.wall_ms()
            self._held = None
        self._arm()

    # -- timers

    def _next_deadline_ms(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def _note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > FEW_CANCELLED and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapify(self._heap)
            self._cancelled = 0

    def _arm(self) -> None:
        """Set the machine's timer to the next deadline; while time stands still, only if it has come, or nearly so."""
        if self._move is not None:
            return
        deadline_ms = self._next_deadline_ms()
        left_ms = None if deadline_ms is None else deadline_ms - self.monotonic_ms()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        if left_ms is not None and (self._held is None or left_ms <= SOON_MS):
            self._armed = self.machine.call_later(left_ms, self._wake)

    def _wake(self) -> None:
        self._armed = None
        if self._move is None:
            deadline_ms = self._next_deadline_ms()
            if self._held is not None and deadline_ms is not None:
                self._held.monotonic_ms = max(deadline_ms, self._held.monotonic_ms)  # by SOON_MS at most
            self._run_due()
            self._arm()

    def _run_due(self) -> None:
        """Run what is due by now, in the order of deadlines; what is set meanwhile comes in another turn."""
        now_ms, last = self.monotonic_ms(), self._scheduled
        while (deadline_ms := self._next_deadline_ms()) is not None and deadline_ms <= now_ms:
            if self._heap[0][1] > last:
                return
            timer = heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            assert callback is not None, "cancelled timers are never next"
            try:
                callback()
            except Exception as exception:  # noqa: BLE001 - reported; the other timers must run
                report_exception("Exception in a timer's callback", exception)
