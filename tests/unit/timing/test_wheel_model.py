"""Random adds, cancels and steps of time, against a plain list of deadlines."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.doubles.clock import ManualClock
from timing.wheel import TimerTask, TimingWheel


@dataclass(slots=True, eq=False)
class Entry:
    deadline: float
    order: int
    task: TimerTask | None = None
    ran_at: float | None = None
    cancelled: bool = False


delays = st.one_of(
    st.integers(0, 60), st.integers(0, 200_000), st.floats(0, 1000, width=32), st.sampled_from([19, 20, 399, 400, 8000])
)
steps = st.one_of(st.integers(0, 50), st.integers(0, 20_000), st.floats(0, 100, width=32))


class WheelAgainstList(RuleBasedStateMachine):
    @initialize(
        tick_ms=st.sampled_from([1, 1, 5]), wheel_size=st.sampled_from([2, 3, 20]), start=st.floats(0, 1e6, width=32)
    )
    def start(self, tick_ms: int, wheel_size: int, start: float) -> None:
        self.clock = ManualClock()
        self.clock.advance(start)
        self.tick_ms = tick_ms
        self.wheel = TimingWheel(self.clock, tick_ms, wheel_size)
        self.entries: list[Entry] = []
        self.ran: list[Entry] = []

    def add_entry(self, delay: float, nested: float | None = None) -> None:
        entry = Entry(self.clock.monotonic_ms() + delay, len(self.entries))
        self.entries.append(entry)

        def callback() -> None:
            assert entry.ran_at is None and not entry.cancelled
            entry.ran_at = self.clock.monotonic_ms()
            self.ran.append(entry)
            if nested is not None:
                self.add_entry(nested)

        entry.task = self.wheel.add(delay, callback)

    @rule(delay=delays, nested=st.none() | delays)
    def add(self, delay: float, nested: float | None) -> None:
        self.add_entry(delay, nested)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.entries:
            entry = data.draw(st.sampled_from(self.entries))
            assert entry.task is not None
            entry.task.cancel()
            entry.cancelled = entry.cancelled or entry.ran_at is None

    @rule(ms=steps)
    def advance(self, ms: float) -> None:
        self.clock.advance(ms)

    @rule(ms=steps, added=st.lists(delays, max_size=3))
    def stall_the_loop(self, ms: float, added: list[float]) -> None:
        """Time passes, and nothing due in it is served before its end, where tasks are added first."""
        now = self.clock.monotonic_ms() + ms
        late = [e for e in self.entries if e.ran_at is None and not e.cancelled and e.deadline + self.tick_ms <= now]
        self.clock.stall(ms)
        for delay in added:
            self.add_entry(delay)
        self.clock.advance(0)
        for entry in late:
            assert entry.ran_at == now
            entry.deadline = now - 1e-9

    @invariant()
    def never_early_never_lost_late_at_most_one_tick(self) -> None:
        now = self.clock.monotonic_ms()
        for entry in self.entries:
            if entry.ran_at is not None:
                assert entry.deadline <= entry.ran_at <= entry.deadline + self.tick_ms
            elif not entry.cancelled:
                assert now < entry.deadline + self.tick_ms

    @invariant()
    def the_length_is_what_waits(self) -> None:
        assert len(self.wheel) == sum(e.ran_at is None and not e.cancelled for e in self.entries)

    @invariant()
    def order_is_by_tick(self) -> None:
        ticks = [math.floor(e.ran_at / self.tick_ms) for e in self.ran if e.ran_at is not None]
        assert ticks == sorted(ticks)


WheelAgainstList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWheelAgainstList = pytest.mark.long(WheelAgainstList.TestCase)
