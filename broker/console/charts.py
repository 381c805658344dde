"""Line charts as points of an SVG, made of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 300, 60


class Chart(NamedTuple):
    """A line over time. `points` are those of a polyline in a box of `WIDTH` by `HEIGHT`; the others are texts."""

    title: str
    points: str
    area: str
    now: str
    most: str


def chart(title: str, values: Sequence[float], shown: Callable[[float], str], *, slots: int = 0) -> Chart:
    """A chart of the values, the newest at the right; with room for `slots` of them at least."""
    most = max(values, default=0)
    room = max(slots, len(values), 2) - 1
    first = room + 1 - len(values)
    places = [
        (
            round((first + at) * WIDTH / room, 1),
            round(HEIGHT - 2 - (HEIGHT - 6) * value / most if most else HEIGHT - 2, 1),
        )
        for at, value in enumerate(values)
    ]
    points = " ".join(f"{x:g},{y:g}" for x, y in places)
    area = f"{places[0][0]:g},{HEIGHT} {points} {WIDTH},{HEIGHT}" if places else ""
    return Chart(title, points, area, shown(values[-1]) if values else "–", shown(most))
