"""The frame of a benchmark that takes the same measures of each contender, round by round."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from benchmarks.contenders import NO_SETTINGS, Contender, arguments, contenders, serving
from benchmarks.figures import Figures, alternating, note, print_table


def compare(
    program: str,
    description: str | None,
    one_pass: Callable[[Contender], dict[str, float]],
    settings: Mapping[str, str] = NO_SETTINGS,
) -> None:
    """Take the arguments, warm up, and print the medians. `one_pass` takes every measure once, by name."""
    parser = arguments(program, description)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    measured = contenders(options.kafka, options.alone, settings)
    figures: Figures = {}
    with contextlib.ExitStack() as running:
        for contender in measured:
            one_pass(running.enter_context(serving(contender)))  # warms up
        for contender in alternating(measured, options.rounds):
            note(figures, contender, one_pass(contender))
    print_table(figures, measured)
