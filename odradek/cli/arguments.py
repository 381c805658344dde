"""What the arguments of several commands have in common."""

from __future__ import annotations

import math
import sys
from typing import Any

import click


class Seconds(click.FloatRange):
    """A time of 0.1 seconds at least; `nan`, which is in each range, is none."""

    def __init__(self, longest: float | None = None) -> None:
        super().__init__(min=0.1, max=longest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r}: expected seconds", param, ctx)
        return found


def pairs(given: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """KEY=VALUE, taken apart. Raises BadParameter."""
    for text in given:
        if "=" not in text or text.startswith("="):
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE", param_hint=option)
    return [(key, value) for key, _, value in (text.partition("=") for text in given)]


def confirm(question: str, yes: bool) -> None:
    """Ask a person; a program is not asked. Raises Abort."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True)
