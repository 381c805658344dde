"""The timing wheel: each task runs once, in time and in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tests.doubles.clock import ManualClock
from timing.wheel import TimerTask, TimingWheel


class CountingClock(ManualClock):
    """A ManualClock that tells how many timers wait at once, and how many were set."""

    def __init__(self) -> None:
        super().__init__()
        self.set = 0

    def call_later(self, delay_ms: float, callback: Callable[[], None]):  # type: ignore[no-untyped-def]
        self.set += 1
        return super().call_later(delay_ms, callback)

    def waiting(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._heap)


@pytest.mark.parametrize("delay", [0, 1, 19, 20, 21, 399, 400, 401, 8_000, 160_001, 3_200_000, 604_800_000])
def test_a_task_runs_at_its_deadline_in_every_level(delay: int) -> None:
    clock = ManualClock()
    clock.advance(12_345)
    wheel = TimingWheel(clock)
    ran: list[float] = []
    wheel.add(delay, lambda: ran.append(clock.monotonic_ms() - 12_345))
    clock.advance(max(delay, 1) - 0.5)
    assert ran == []
    clock.advance(1.5)
    assert ran == [max(delay, 1)]
    assert len(wheel) == 0


def test_a_deadline_between_ticks_runs_at_the_next_tick() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, tick_ms=10)
    clock.advance(3.5)
    ran: list[float] = []
    wheel.add(7, lambda: ran.append(clock.monotonic_ms()))
    clock.advance(100)
    assert ran == [20], "10.5 is after the tick of 10"


def test_tasks_run_in_the_order_of_their_ticks_and_then_of_adding() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    wheel.add(500, lambda: ran.append("first added, waits in a coarse bucket"))
    clock.advance(490)
    wheel.add(10, lambda: ran.append("second added, same tick"))
    wheel.add(9, lambda: ran.append("a tick earlier"))
    clock.advance(10)
    assert ran == ["a tick earlier", "first added, waits in a coarse bucket", "second added, same tick"]


def test_a_cancelled_task_does_not_run_and_cancelling_again_is_harmless() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    kept = wheel.add(5, lambda: ran.append("kept"))
    cancelled = wheel.add(5, lambda: ran.append("cancelled"))
    assert len(wheel) == 2
    cancelled.cancel()
    cancelled.cancel()
    assert len(wheel) == 1
    clock.advance(10)
    kept.cancel()
    assert ran == ["kept"]
    assert len(wheel) == 0


def test_a_callback_may_cancel_a_task_of_its_own_tick() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    tasks: list[TimerTask] = []

    def first() -> None:
        ran.append("first")
        tasks[1].cancel()

    tasks.append(wheel.add(5, first))
    tasks.append(wheel.add(5, lambda: ran.append("second")))
    clock.advance(10)
    assert ran == ["first"]
    assert len(wheel) == 0


def test_tasks_added_by_callbacks_after_the_loop_was_late_run_in_time() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[float] = []

    def again() -> None:
        ran.append(clock.monotonic_ms())
        if len(ran) < 50:
            wheel.add(20, again)

    # The loop is held up for 100 ms: the wheel's timer, due at 10, is served at 100.
    wheel.add(10, again)
    wheel.add(30, lambda: ran.append(-clock.monotonic_ms()))
    clock.stall(100)
    clock.advance(0)
    assert ran == [100, -100]
    clock.advance(40)
    assert ran[2:] == [120, 140]


def test_a_task_added_when_another_is_overdue_does_not_take_its_place() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[tuple[str, float]] = []
    wheel.add(5, lambda: ran.append(("overdue", clock.monotonic_ms())))
    # The loop serves something else first at 20; then 25 is the next round's time of the bucket of 5.
    clock.stall(20)
    wheel.add(5, lambda: ran.append(("later", clock.monotonic_ms())))
    clock.advance(0)
    assert ran == [("overdue", 20)]
    clock.advance(5)
    assert ran == [("overdue", 20), ("later", 25)]


def test_one_timer_of_the_clock_serves_all_tasks() -> None:
    clock = CountingClock()
    wheel = TimingWheel(clock)
    tasks = [wheel.add(1000 + i, lambda: None) for i in range(1000)]
    assert (clock.waiting(), clock.set) == (1, 1)
    wheel.add(1, lambda: None)
    assert clock.waiting() == 1
    for task in tasks:
        task.cancel()
    clock.advance(1)
    assert clock.waiting() == 0, "cancelled tasks wake nobody"


def test_an_exception_in_one_callback_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[int] = []
    wheel.add(5, lambda: 1 // 0)  # type: ignore[arg-type]
    wheel.add(5, lambda: ran.append(1))
    wheel.add(6, lambda: ran.append(2))
    with caplog.at_level(logging.ERROR):
        clock.advance(10)
    assert ran == [1, 2]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


async def test_an_exception_goes_to_the_running_loops_handler() -> None:
    contexts: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    clock = ManualClock()
    TimingWheel(clock).add(5, lambda: 1 // 0)  # type: ignore[arg-type]
    await clock.run(5)
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError]


def test_an_exit_out_of_a_callback_keeps_the_others_waiting() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[int] = []

    def leave() -> None:
        raise KeyboardInterrupt

    wheel.add(5, leave)
    wheel.add(5, lambda: ran.append(1))
    with pytest.raises(KeyboardInterrupt):
        clock.advance(10)
    clock.advance(1)
    assert ran == [1]


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(0, 20), (1, 1)])
def test_a_wheel_that_cannot_turn_is_refused(tick_ms: int, wheel_size: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        TimingWheel(ManualClock(), tick_ms, wheel_size)
