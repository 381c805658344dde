"""What was measured, round by round, and a table of the medians."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

Figures = dict[str, dict[str, list[float]]]
"""By measure and contender, one figure per round."""


class Named(Protocol):
    name: str


N = TypeVar("N", bound=Named)


def alternating(contenders: Sequence[N], rounds: int) -> Iterator[N]:
    """A B, B A, A B, ...: neither always goes first."""
    for number in range(rounds):
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
        yield from contenders if number % 2 == 0 else reversed(contenders)


def note(figures: Figures, contender: Named, found: Mapping[str, float]) -> None:
    for measure, figure in found.items():
        figures.setdefault(measure, {}).setdefault(contender.name, []).append(figure)


def print_table(figures: Figures, contenders: Sequence[Named]) -> None:
    """Print a line for each measure: the figures, and the first contender's as a fraction of each other's."""
    names = [contender.name for contender in contenders]
    heads = [*names, *(f"/ {name}" for name in names[1:])]
    sys.stdout.write(f"{'median of the rounds':52}" + "".join(f"{head:>12}" for head in heads) + "\n")
    for measure, by_name in figures.items():
        medians = [statistics.median(by_name[name]) for name in names]
        ratios = [f"{medians[0] / other:12.2f}" if other else f"{'':12}" for other in medians[1:]]
        sys.stdout.write(f"{measure:52}" + "".join([f"{median:12,.2f}" for median in medians] + ratios) + "\n")
