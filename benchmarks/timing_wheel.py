"""The timing wheel alone, with many tasks: `python -m benchmarks.timing_wheel --help`.

Rates of adding, cancelling and expiring, and memory per task. Time is virtual, so the figures are the wheel's own cost;
delays are distributed like a broker's (long polls, sessions, transactions). `asyncio` is the same work with
`loop.call_later` and `handle.cancel`, where a cancelled timer stays in the heap.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import time
from collections.abc import Callable, Sequence

from tests.doubles.clock import ManualClock
from timing.clock import Timer
from timing.wheel import TimingWheel


def rate(name: str, count: int, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    print(f"{name:<44} {count / seconds:>12,.0f} /s   {seconds * 1e9 / count:>7.0f} ns each")  # noqa: T201 - its output


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def nothing() -> None:
    """The callback."""


def cancel_all(timers: Sequence[Timer]) -> None:
    for timer in timers:
        timer.cancel()


def main(count: int) -> None:
    rng = random.Random(1)
    delays = [rng.choice((500, 1500, 10_000, 45_000, 60_000, 900_000)) + rng.randrange(500) for _ in range(count)]
    clock = ManualClock()
    wheel = TimingWheel(clock)

    gc.collect()
    before = resident_bytes()
    rate(f"add ({count:,} waiting at the end)", count, lambda: [wheel.add(delay, nothing) for delay in delays])
    gc.collect()
    print(f"{'memory':<44} {(resident_bytes() - before) / count:>12,.0f} bytes for each waiting task")  # noqa: T201
    rate("expire all of them", count, lambda: clock.advance(1_000_000))
    assert len(wheel) == 0

    tasks = [wheel.add(delay, nothing) for delay in delays]
    rng.shuffle(tasks)
    rate("cancel in random order", count, lambda: cancel_all(tasks))
    assert len(wheel) == 0
    tasks.clear()

    def add_and_cancel() -> None:
        for delay in delays:
            wheel.add(delay, nothing).cancel()

    rate("add and cancel at once", count, add_and_cancel)

    loop = asyncio.new_event_loop()
    handles: list[asyncio.TimerHandle] = []
    rate("asyncio: add", count, lambda: handles.extend(loop.call_later(delay / 1000, nothing) for delay in delays))
    rng.shuffle(handles)
    rate("asyncio: cancel in random order", count, lambda: cancel_all(handles))
    loop.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.timing_wheel", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    main(parser.parse_args().tasks)
