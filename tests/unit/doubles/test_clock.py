"""ManualClock: virtual time that tests can rely on."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.doubles.clock import ManualClock


def test_callbacks_run_in_deadline_order_and_see_their_own_time() -> None:
    clock = ManualClock(start_wall_ms=1000)
    seen: list[tuple[str, float, int]] = []

    def note(name: str) -> None:
        seen.append((name, clock.monotonic_ms(), clock.wall_ms()))

    for name, delay in (("late", 30.5), ("early", 10), ("early too", 10), ("beyond", 41)):
        clock.call_later(delay, partial(note, name))
    clock.advance(40)
    assert seen == [("early", 10, 1010), ("early too", 10, 1010), ("late", 30.5, 1030)]
    assert clock.monotonic_ms() == 40
    assert clock.next_deadline_ms() == 41


def test_what_a_callback_schedules_within_the_window_runs_too() -> None:
    clock = ManualClock()
    times: list[float] = []

    def tick() -> None:
        times.append(clock.monotonic_ms())
        clock.call_later(10, tick)

    clock.call_later(10, tick)
    clock.advance(35)
    assert times == [10, 20, 30]


def test_a_cancelled_call_is_not_made() -> None:
    clock = ManualClock()
    seen: list[str] = []
    timer = clock.call_later(6, lambda: seen.append("cancelled"))
    clock.call_later(5, timer.cancel)
    clock.advance(10)
    timer.cancel()
    assert seen == []
    assert clock.next_deadline_ms() is None


def test_an_exception_stops_at_its_instant_and_loses_nothing() -> None:
    clock = ManualClock()
    seen: list[float] = []
    clock.call_later(5, lambda: 1 // 0)  # type: ignore[arg-type]
    clock.call_later(5, lambda: seen.append(clock.monotonic_ms()))
    with pytest.raises(ZeroDivisionError):
        clock.advance(10)
    assert (clock.monotonic_ms(), seen) == (5, [])
    clock.advance(0)
    assert seen == [5]


def test_what_falls_due_while_the_loop_is_held_up_runs_late() -> None:
    clock = ManualClock(start_wall_ms=1000)
    seen: list[tuple[float, int]] = []
    clock.call_later(5, lambda: seen.append((clock.monotonic_ms(), clock.wall_ms())))
    clock.stall(20)
    assert seen == []
    clock.advance(0)
    assert seen == [(20, 1020)]


async def test_run_lets_tasks_finish_between_the_steps() -> None:
    clock = ManualClock()
    log: list[tuple[str, float]] = []

    async def worker(name: str, period: float) -> None:
        while True:
            await clock.sleep(period)
            for _ in range(5):
                await asyncio.sleep(0)
            log.append((name, clock.monotonic_ms()))

    tasks = [asyncio.create_task(worker("a", 10)), asyncio.create_task(worker("b", 15))]
    await clock.run(31)
    assert log == [("a", 10), ("b", 15), ("a", 20), ("b", 30), ("a", 30)], "b asked for 30 first"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert clock.next_deadline_ms() is None, "a cancelled sleep leaves no timer"


async def test_run_does_not_wait_in_real_time() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(86_400_000))
    await clock.run(86_399_999)
    assert not sleeper.done()
    await clock.run(1)
    await sleeper
