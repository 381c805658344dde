"""Names by which people know an option of `consume` and `produce` from Kafka's scripts, kcat and rpk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import click


class WithKnownNames(click.Command):
    """A command that takes such a name as if its own were given.

    Attributes:
        known_names: what stands for each, nothing if it is so anyway; its value stays behind it.
    """

    known_names: ClassVar[Mapping[str, Sequence[str]]] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        found: list[str] = []
        for number, argument in enumerate(args):
            if argument == "--":
                found += args[number:]
                break
            option, has_value, value = argument.partition("=")
            own = self.known_names.get(option)
            found += [argument] if own is None else [*own, value] if has_value else own
        return super().parse_args(ctx, found)


TOPIC = {"--topic": (), "-t": ()}


class Consume(WithKnownNames):
    """`consume`, which reads from the beginning and only what is committed without a word."""

    known_names: ClassVar = TOPIC | {
        "--from-beginning": (),
        "--read-committed": (),
        "-C": (),
        "--max-messages": ("--count",),
        "--num": ("--count",),
        "-c": ("--count",),
        "--isolation-level": ("--isolation",),
        "--tail": ("--last",),
        "-J": ("--format", "json"),
        "-Z": ("--null", "NULL"),
    }


class Produce(WithKnownNames):
    """`produce`."""

    known_names: ClassVar = TOPIC | {
        "-P": (),
        "--request-required-acks": ("--acks",),
        "--compression-codec": ("--compression",),
    }
