"""What the arguments of several commands have in common."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import click

INT32 = click.IntRange(1, 2**31 - 1)
LARGEST = 2**63 - 1
"""The largest offset, and the last time in milliseconds."""


class Seconds(click.FloatRange):
    """A time of 0.1 seconds at least; `nan`, which is in each range, is none."""

    def __init__(self, longest: float | None = None) -> None:
        super().__init__(min=0.1, max=longest)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r}: expected seconds", param, ctx)
        return found


def require_text(*given: Any) -> None:
    """Raises UsageError for an argument that is no name in Kafka: the client libraries crash with some of them."""
    for value in given:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise click.UsageError(f"{value!r} is no text in UTF-8") from None
            if "\0" in value:
                raise click.UsageError(f"{value!r}: there is a zero byte in it")
        elif isinstance(value, Iterable) and not isinstance(value, bytes):
            require_text(*value)


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
