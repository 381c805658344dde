"""The options of commands that read a broker's configuration: `--config FILE` and `--set KEY=VALUE`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.config.sources import Loaded, load

_Command = TypeVar("_Command", bound=Callable[..., Any])

_config = click.option(
    "-c",
    "--config",
    "config_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Read this server.properties file; may be repeated, a later one overrides an earlier one.",
)
_set = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set one configuration; may be repeated."
)


def config_options(command: _Command) -> _Command:
    """The command with both options; it gets their values as `config_files` and `settings`."""
    return _config(_set(command))


def load_options(
    config_files: Sequence[str],
    settings: Sequence[str],
    *,
    fallback: str | None = None,
    opens_listeners: bool = True,
) -> Loaded:
    """The configuration that the options and the environment make; see `load`. Raises ConfigurationError."""
    files = [_read(name) for name in config_files]
    in_place_of_all = None if fallback is None else _read(fallback)
    return load(files, os.environ, settings, fallback=in_place_of_all, opens_listeners=opens_listeners)


def _read(name: str) -> tuple[str, str]:
    return name, Path(name).read_text("iso-8859-1")  # as Java reads them
