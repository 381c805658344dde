"""The broker's time: sessions, timeouts, expiries, retention and timestamps follow it, connections do not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.node import Node
from timing.adjustable_clock import AdjustableClock

UNITS_MS = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, beyond which no date can be shown."""
QUIET_TURNS = 10
"""So many turns of the loop without a job or a thread at work mean that what has begun is at its end."""
POLL_MS = 1
LONGEST_WORK_MS = 10_000
"""How long one instant may take; a thread that hangs must not keep time from going on."""


async def settle(node: Node) -> None:
    """Return when what has begun in the node, requests of clients aside, is at its end."""
    machine = node.clock.machine
    until_ms = machine.monotonic_ms() + LONGEST_WORK_MS
    quiet = 0
    while quiet < QUIET_TURNS:
        if not node.is_busy or machine.monotonic_ms() >= until_ms:
            quiet += 1
            await asyncio.sleep(0)
        else:
            quiet = 0
            await machine.sleep(POLL_MS)


def clock_of(node: Node) -> AdjustableClock:
    """The node's clock. Raises ControlError if it is one that nobody moves."""
    if not isinstance(node.clock, AdjustableClock):
        raise ControlError("this broker's clock cannot be moved", status=409)
    return node.clock


def _state(node: Node, _values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    now = clock.wall_ms() / 1000
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return {"now": now, "time": text, "frozen": clock.frozen, "ahead": clock.ahead_ms / 1000}


async def _advance(node: Node, values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    if not values:
        raise ControlError("expected seconds, minutes, hours or days, or several of them", parameter="seconds")
    ms = sum(values[unit] * factor for unit, factor in UNITS_MS.items() if unit in values)
    if clock.wall_ms() + ms > LATEST_MS:
        unit = next(iter(values))
        raise ControlError(f"{unit} = {values[unit]!r}: expected to stay before the year 10000", parameter=unit)
    await clock.advance(ms, partial(settle, node))
    return _state(node, {})


async def _set(node: Node, values: Values) -> dict[str, Any]:
    clock = clock_of(node)
    if len(values) != 1:
        raise ControlError("expected either time or epoch", parameter="time")
    name, value = next(iter(values.items()))
    wall_ms = value * 1000 if name == "epoch" else _parsed(value).timestamp() * 1000
    if not 0 <= wall_ms <= LATEST_MS:
        raise ControlError(f"{name} = {value!r}: expected a time from 1970 to 9999", parameter=name)
    await clock.set_wall(wall_ms, partial(settle, node))
    return _state(node, {})


def _parsed(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a time in ISO 8601, as 2026-01-31T12:00:00Z"
        raise ControlError(f"time = {text!r}: {expected}", parameter="time") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


async def _freeze(node: Node, _values: Values) -> dict[str, Any]:
    await clock_of(node).freeze()
    return _state(node, {})


async def _resume(node: Node, _values: Values) -> dict[str, Any]:
    await clock_of(node).resume()
    return _state(node, {})


async def _reset(node: Node, _values: Values) -> dict[str, Any]:
    await clock_of(node).reset()
    return _state(node, {})


_UNITS = tuple(
    Parameter(unit, Kind.NUMBER, f"So many {unit}; several units are added up.", least=0) for unit in UNITS_MS
)

ENDPOINTS = (
    Endpoint("GET", "/clock", "The broker's time: seconds since 1970, as text, and whether it stands still.", _state),
    Endpoint("POST", "/clock/advance", "Move time forward; answered when all that is due has run.", _advance, _UNITS),
    Endpoint(
        "POST",
        "/clock/set",
        "Set the time of day. Forward, all that is due runs; back, only timestamps change.",
        _set,
        (
            Parameter("time", Kind.STRING, "The time in ISO 8601, in UTC unless it says otherwise."),
            Parameter("epoch", Kind.NUMBER, "The time in seconds since 1970.", least=0),
        ),
    ),
    Endpoint("POST", "/clock/freeze", "Let time stand still.", _freeze),
    Endpoint("POST", "/clock/resume", "Let time go on from where it stands.", _resume),
    Endpoint("POST", "/clock/reset", "Go on with the machine's time of day.", _reset),
)
