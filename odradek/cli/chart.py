"""Charts of block characters, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def sparkline(values: Sequence[float]) -> str:
    """One character for each value, as high as it is."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(value / highest * len(BARS)))] for value in values)


def histogram(values: Sequence[float], unit: str, rows: int = 10) -> list[str]:
    """Lines with a bar for each range of values, all as wide."""
    if not values:
        return []
    low, high = min(values), max(values)
    step = (high - low) / rows or 1.0
    counts = [0] * rows
    for value in values:
        counts[min(rows - 1, int((value - low) / step))] += 1
    most = max(counts)
    return [
        f"{low + number * step:9.2f} {unit}  {'█' * round(count / most * WIDTH)} {count}"
        for number, count in enumerate(counts)
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
