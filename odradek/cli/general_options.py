"""The options that may stand anywhere in a command: which cluster, how long to wait for it, how to print the answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from odradek.cli.arguments import Seconds

DEFAULT_TIMEOUT_S = 30.0
LONGEST_TIMEOUT_S = 300
"""librdkafka's."""
_KEY = "odradek.general_options"


@dataclass
class General:
    """What was given so far. Of an option that was given twice, the last one counts; settings add up."""

    bootstrap: str | None = None
    context: str | None = None
    settings: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT_S
    as_json: bool = False


def given(ctx: click.Context) -> General:
    """The general options of this command and of those before it."""
    found: General = ctx.meta.setdefault(_KEY, General())
    return found


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value is None or value is False or value == ():
        return
    if value == "":
        raise click.BadParameter("it is empty", ctx, option)
    general, name = given(ctx), str(option.name)
    setattr(general, name, (*general.settings, *value) if name == "settings" else value)


_option = partial(partial, click.option, callback=_keep, expose_value=False)
_OPTIONS = (
    _option("-b", "--bootstrap", "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers of the cluster."),
    _option("--context", metavar="NAME", help="A context (`odradek contexts`) in place of the current one."),
    _option("-X", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of librdkafka; may be repeated."),
    _option("--timeout", type=Seconds(LONGEST_TIMEOUT_S), metavar="SECONDS", help=f"Default: {DEFAULT_TIMEOUT_S:g}."),
    _option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def general_options(command: Any, hidden: bool = False) -> Any:
    """The command, or its function, with these options. What is given is kept, and not passed to the function."""
    for option in reversed(_OPTIONS):
        command = option(hidden=hidden)(command)
    return command
