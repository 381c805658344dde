"""The system clock against the real time."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from timing.clock import SystemClock


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_system_clock_is_never_early_and_both_its_readings_move(new_loop: object) -> None:
    async def main() -> None:
        clock = SystemClock()
        before, wall_before = clock.monotonic_ms(), time.time_ns() // 1_000_000
        await clock.sleep(1.3)
        fired: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        asked = clock.monotonic_ms()
        assert asked > before
        clock.call_later(0.2, lambda: fired.set_result(clock.monotonic_ms()))
        assert await fired >= asked
        cancelled = clock.call_later(0, lambda: pytest.fail("called after cancel"))
        cancelled.cancel()
        await clock.sleep(0)
        assert clock.wall_ms() >= wall_before

    loop = new_loop()  # type: ignore[operator]
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
