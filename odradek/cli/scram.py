"""The options of `odradek users`, which are two programs: a client of a cluster, and the node's own on its folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384

Command = TypeVar("Command", bound=Callable[..., Any])


def _mechanisms(**more: Any) -> Callable[[Command], Command]:
    return click.option("-m", "--mechanism", "mechanisms", multiple=True, type=click.Choice(MECHANISMS), **more)


def with_new_password(command: Command) -> Command:
    """Give the command the options of a user's password: it gets `mechanisms`, `iterations` and `password_file`."""
    for option in (
        click.option("--password-file", metavar="FILE", help="The password is its first line; - is standard input."),
        click.option(
            "--iterations",
            type=click.IntRange(LEAST_ITERATIONS, MOST_ITERATIONS),
            default=LEAST_ITERATIONS,
            show_default=True,
            help="How often the password is hashed.",
        ),
        _mechanisms(default=["SCRAM-SHA-512"], show_default=True, help="May be repeated."),
    ):
        command = option(command)
    return command


def with_mechanisms(command: Command) -> Command:
    """Give the command `mechanisms`, of which none means all that the user has."""
    return _mechanisms(help="Only this; may be repeated; default: all that the user has.")(command)
