"""The commands that run in place of a node: on the files of one that is stopped, and for several nodes at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from broker.config.broker_config import ConfigurationError


@contextmanager
def wrong_configuration_ends() -> Iterator[None]:
    """Tell what is wrong with the configuration, and end the program with status 1."""
    try:
        yield
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(f"wrong configuration: {problem}", err=True)
        sys.exit(1)
