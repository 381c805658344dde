"""What a test has done to the node through the control interface: faults, and the clock."""

from __future__ import annotations

from typing import Any

from broker.console.ask import Ask, Page
from broker.testkit.control.faults import described
from timing.adjustable_clock import AdjustableClock


async def kit(ask: Ask) -> Page:
    node = ask.node
    faults = [] if node.faults is None else [described(fault) for fault in node.faults]
    return Page(
        "kit.html",
        "Test kit",
        {"is_open": node.faults is not None, "faults": faults, "clock": _clock(ask)},
    )


def _clock(ask: Ask) -> dict[str, Any] | None:
    """None for a clock that nobody moves."""
    clock = ask.node.clock
    if not isinstance(clock, AdjustableClock):
        return None
    return {"now_ms": clock.wall_ms(), "ahead_ms": clock.ahead_ms, "frozen": clock.frozen}
