"""Line charts as SVG, with axes, units and a range of time that the page is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from broker.console.ask import Ask

WIDTH, HEIGHT = 300, 90

MINUTE_MS = 60_000
RANGES = {"5m": ("5 min", 5 * MINUTE_MS), "30m": ("30 min", 30 * MINUTE_MS), "24h": ("24 h", 1440 * MINUTE_MS)}
"""What a page can be asked for: the name in its address, the text of the link, and the length."""

MARKS = (1, 2, 2.5, 5, 10)
"""A scale ends with one of these, and zeros."""

LEAST = 1e-9
"""Less than this is nothing."""

Point = tuple[float, float]
"""A wall time in ms, and a value."""


class Chart(NamedTuple):
    """`lines` and `areas` are points in a box of `WIDTH` by `HEIGHT`; a line ends where nothing is known.

    `scale` has the texts of the vertical axis from the top, `times` those of the horizontal one from the left.
    """

    title: str
    now: str
    most: str
    lines: Sequence[str]
    areas: Sequence[str]
    scale: Sequence[str]
    times: Sequence[str]


class Frame(NamedTuple):
    """What the charts of a page have in common: they end `now_ms`, and are `length_ms` long."""

    chosen: str
    now_ms: float
    length_ms: float

    @property
    def is_long(self) -> bool:
        """Whether more is asked for than what is noted every few seconds."""
        return self.length_ms > RANGES["30m"][1]


def frame_of(ask: Ask) -> Frame:
    """The range that is asked for. Raises ControlError."""
    chosen = ask.choice("range", ("30m", "5m", "24h"))
    return Frame(chosen, ask.node.clock.machine.wall_ms(), RANGES[chosen][1])


def chart(title: str, points: Iterable[Point], shown: Callable[[float], str], frame: Frame, step_ms: float) -> Chart:
    """A chart of what is in the frame; `step_ms` is how far points are apart where nothing is missing."""
    begin_ms = frame.now_ms - frame.length_ms
    seen = [point for point in points if begin_ms <= point[0] <= frame.now_ms]
    most = max((value for _, value in seen), default=0.0)
    top = _top(most)
    lines, areas = [], []
    for part in _unbroken(seen, 3 * step_ms):
        places = [
            (
                (at_ms - begin_ms) * WIDTH / frame.length_ms,
                HEIGHT - HEIGHT * value / top,
            )
            for at_ms, value in part
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(line if len(part) > 1 else f"{line} {places[0][0] + 1:.1f},{places[0][1]:.1f}")
        areas.append(f"{places[0][0]:.1f},{HEIGHT} {line} {places[-1][0]:.1f},{HEIGHT}")
    return Chart(
        title,
        shown(seen[-1][1]) if seen else "–",
        shown(most) if seen else "–",
        lines,
        areas,
        [shown(top), shown(top / 2), shown(0)] if most > 0 else ["", "", shown(0)],
        [_time(begin_ms + frame.length_ms * part, frame) for part in (0, 0.5, 1)],
    )


def _top(most: float) -> float:
    """Where the vertical axis ends: a round number, of which the half is one, too."""
    if most < LEAST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(mark * power for mark in MARKS if mark * power >= most or mark == MARKS[-1])


def _unbroken(points: Sequence[Point], longest_ms: float) -> Iterable[Sequence[Point]]:
    """The parts of a line between which nothing was noted for longer."""
    begin = 0
    for at in range(1, len(points)):
        if points[at][0] - points[at - 1][0] > longest_ms:
            yield points[begin:at]
            begin = at
    if points:
        yield points[begin:]


def _time(at_ms: float, frame: Frame) -> str:
    form = "%H:%M:%S" if frame.chosen == "5m" else "%H:%M"
    return datetime.fromtimestamp(max(at_ms, 0) / 1000, UTC).strftime(form)
