"""A clock that is moved, stopped and set, over a machine's clock that is virtual itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tests.doubles.clock import ManualClock, settle
from timing.adjustable_clock import FEW_CANCELLED, AdjustableClock
from timing.wheel import TimingWheel

SECOND, HOUR, DAY = 1_000.0, 3_600_000.0, 86_400_000.0
YEAR = 365 * DAY


class Rig:
    """A clock over a machine's, and what ran at which of its readings, counted from the start."""

    def __init__(self) -> None:
        self.machine = ManualClock()
        self.machine.advance(12_345.5)
        self.clock = AdjustableClock(self.machine)
        self.began_ms, self.began_wall_ms = self.clock.monotonic_ms(), self.clock.wall_ms()
        self.ran: list[tuple[str, float]] = []

    @property
    def now(self) -> float:
        return self.clock.monotonic_ms() - self.began_ms

    @property
    def wall(self) -> int:
        return self.clock.wall_ms() - self.began_wall_ms

    def note(self, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], None]:
        def run() -> None:
            self.ran.append((name, self.now))
            then()

        return run

    async def advance(self, ms: float) -> None:
        await self.clock.advance(ms, settle)


async def test_left_alone_it_is_the_machines_clock() -> None:
    rig = Rig()
    rig.clock.call_later(10, rig.note("b"))
    rig.clock.call_later(5, rig.note("a"))
    rig.clock.call_later(7, rig.note("never")).cancel()
    rig.clock.call_later(-1, rig.note("at once"))
    rig.machine.advance(20)
    assert rig.ran == [("at once", 0), ("a", 5), ("b", 10)]
    assert (rig.now, rig.wall, rig.clock.ahead_ms, rig.clock.frozen) == (20, 20, 0, False)
    assert rig.clock.pause_ms(3) == 3


async def test_what_is_due_within_a_move_runs_at_its_own_time_in_order_and_so_does_what_it_sets() -> None:
    rig = Rig()
    rig.clock.call_later(2 * HOUR, rig.note("late"))
    rig.clock.call_later(HOUR, rig.note("early", lambda: rig.clock.call_later(HOUR / 2, rig.note("set within"))))
    rig.clock.call_later(YEAR + 1, rig.note("after"))
    await rig.advance(YEAR)
    assert rig.ran == [("early", HOUR), ("set within", 1.5 * HOUR), ("late", 2 * HOUR)]
    assert (rig.now, rig.wall, rig.machine.monotonic_ms()) == (YEAR, YEAR, 12_345.5)
    rig.machine.advance(1)
    assert rig.ran[3:] == [("after", YEAR + 1)]


async def test_what_a_timer_begins_comes_to_its_end_before_time_goes_on() -> None:
    rig = Rig()

    async def work() -> None:
        for _ in range(5):
            await rig.clock.sleep(0)
        rig.note("worked")()
        await rig.clock.sleep(DAY)
        rig.note("worked on")()

    tasks: list[asyncio.Task[None]] = []
    rig.clock.call_later(HOUR, rig.note("task", lambda: tasks.append(asyncio.ensure_future(work()))))
    rig.clock.call_later(2 * HOUR, rig.note("next"))
    await rig.advance(YEAR)
    assert rig.ran == [("task", HOUR), ("worked", HOUR), ("next", 2 * HOUR), ("worked on", HOUR + DAY)]


async def test_what_repeats_runs_a_few_times_in_a_year_and_at_its_end() -> None:
    rig = Rig()

    def repeat(name: str, period_ms: float) -> Callable[[], None]:
        return rig.note(name, lambda: rig.clock.call_later(rig.clock.pause_ms(period_ms), repeat(name, period_ms)))

    for name, period_ms in (("often", 100.0), ("seldom", 10 * 60 * SECOND)):
        rig.clock.call_later(period_ms, repeat(name, period_ms))
    await rig.advance(YEAR)
    often = [at for name, at in rig.ran if name == "often"]
    seldom = [at for name, at in rig.ran if name == "seldom"]
    assert often[:4] == [100, 1 * SECOND, 2 * SECOND, 4 * SECOND]
    assert seldom[:2] == [600 * SECOND, 2048 * SECOND]
    assert often[-1] == seldom[-1] == YEAR
    assert len(rig.ran) < 50
    assert [at for _, at in rig.ran] == sorted(at for _, at in rig.ran)
    rig.machine.advance(100)
    assert rig.ran[-1] == ("often", YEAR + 100)


async def test_a_frozen_clock_stands_still_runs_only_what_is_due_and_can_be_moved() -> None:
    rig = Rig()
    rig.clock.call_later(52, rig.note("later"))
    await rig.clock.freeze()
    rig.machine.advance(DAY)
    assert (rig.ran, rig.now, rig.wall, rig.clock.frozen) == ([], 0, 0, True)
    rig.clock.call_later(0, rig.note("at once"))
    rig.machine.advance(0)
    assert rig.ran == [("at once", 0)]
    TimingWheel(rig.clock).add(0, rig.note("with the wheel's next tick"))
    rig.machine.advance(1)
    assert rig.ran.pop() == ("with the wheel's next tick", 0.5)
    assert rig.wall == 0
    await rig.advance(49)
    rig.machine.advance(DAY)
    assert (rig.now, rig.wall) == (49.5, 49)
    await rig.clock.resume()
    rig.machine.advance(2.5)
    assert rig.ran[1:] == [("later", 52)]
    assert rig.wall in (51, 52)


async def test_set_forward_moves_time_and_back_changes_only_what_is_written_down() -> None:
    rig = Rig()
    rig.clock.call_later(HOUR, rig.note("due"))
    await rig.clock.set_wall(rig.began_wall_ms + DAY, settle)
    assert (rig.ran, rig.wall, rig.now) == ([("due", HOUR)], DAY, DAY)
    rig.clock.call_later(HOUR, rig.note("due again"))
    await rig.clock.set_wall(rig.began_wall_ms - DAY, settle)
    assert (rig.wall, rig.now) == (-DAY, DAY)
    rig.machine.advance(HOUR)
    assert rig.ran[1:] == [("due again", DAY + HOUR)]
    assert rig.wall == -DAY + HOUR


async def test_a_frozen_clock_that_is_set_reads_exactly_that_time_whatever_fractions_lie_behind_it() -> None:
    rig = Rig()
    for step in range(200):
        await rig.advance(1000 * (1 + step / 7))
        await rig.clock.freeze()
        new_year = rig.began_wall_ms + (step + 1) * YEAR
        await rig.clock.set_wall(new_year, settle)
        assert rig.clock.wall_ms() == new_year
        await rig.clock.resume()


async def test_reset_runs_again_with_the_machines_time_of_day_and_keeps_deadlines() -> None:
    rig = Rig()
    await rig.advance(DAY)
    await rig.clock.freeze()
    rig.clock.call_later(HOUR, rig.note("due"))
    await rig.clock.reset()
    assert (rig.wall, rig.now, rig.clock.ahead_ms) == (0, DAY, 0)
    rig.machine.advance(HOUR)
    assert rig.ran == [("due", DAY + HOUR)]


async def test_moves_at_the_same_time_follow_one_another() -> None:
    rig = Rig()
    rig.clock.call_later(HOUR, rig.note("first"))
    rig.clock.call_later(3 * HOUR, rig.note("second"))
    await asyncio.gather(rig.advance(2 * HOUR), rig.advance(2 * HOUR), rig.clock.freeze())
    assert rig.ran == [("first", HOUR), ("second", 3 * HOUR)]
    assert (rig.now, rig.clock.frozen) == (4 * HOUR, True)


def _failing() -> None:
    raise ValueError("on purpose")


async def test_an_exception_in_a_timer_is_reported_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.clock.call_later(1, _failing)
    rig.clock.call_later(1, rig.note("other"))
    with caplog.at_level(logging.ERROR):
        await rig.advance(1)
    assert rig.ran == [("other", 1)]
    assert "Exception in a timer's callback" in caplog.text


async def test_sleep_ends_in_its_time_and_leaves_no_timer_when_cancelled() -> None:
    rig = Rig()
    sleeping = asyncio.ensure_future(rig.clock.sleep(HOUR))
    given_up = asyncio.ensure_future(rig.clock.sleep(HOUR))
    await settle()
    given_up.cancel()
    await rig.advance(HOUR)
    assert sleeping.done()
    assert rig.clock._next_deadline_ms() is None


def test_cancelled_timers_do_not_pile_up() -> None:
    rig = Rig()
    kept = [rig.clock.call_later(number, rig.note(str(number))) for number in range(10)]
    for _ in range(10_000):
        rig.clock.call_later(YEAR, rig.note("never")).cancel()
    assert len(rig.clock._heap) <= len(kept) + FEW_CANCELLED + 1
    rig.machine.advance(10)
    assert [name for name, _ in rig.ran] == [str(number) for number in range(10)]


async def test_a_wheel_follows_a_year_without_a_walk_over_its_ticks() -> None:
    rig = Rig()
    wheel = TimingWheel(rig.clock)
    days = [1, 300, 7, 7.5, 364]
    for number in days:
        wheel.add(number * DAY, rig.note(f"{number}", lambda: wheel.add(SECOND, rig.note("then"))))
    steps = 0

    async def counted() -> None:
        nonlocal steps
        steps += 1
        await settle()

    await rig.clock.advance(YEAR, counted)
    expected = [(f"{number}", number * DAY) for number in sorted(days)]
    assert [(name, pytest.approx(at, abs=1)) for name, at in rig.ran if name != "then"] == expected
    assert [pytest.approx(at, abs=2) for name, at in rig.ran if name == "then"] == [at + SECOND for _, at in expected]
    assert len(wheel) == 0
    assert steps < 100
