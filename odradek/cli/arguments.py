"""What the arguments of several commands have in common."""

from __future__ import annotations

import sys

import click


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
