"""`odradek user add|list|delete`: the users of SCRAM."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, BinaryIO

import click
import structlog

from broker.config.broker_config import ConfigurationError
from broker.config.sources import config_options, load_options
from broker.user_tool import over_the_wire, stopped_folder
from broker.user_tool.over_the_wire import Connection
from broker.user_tool.users import Users, UserToolError
from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, Alteration, Deletion, upsertion

NAMES = {int(number): name for name, number in SCRAM_MECHANISMS.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the users are: `alter` does something and tells nothing, `users` tells who there is."""

    alter: Callable[[Sequence[Alteration]], object]
    users: Callable[[], Users]


@click.group("user")
def main() -> None:
    """Add, list and delete the users of SCRAM.

    Of a running broker with --bootstrap-server, or else in the folders of log.dirs of one that is stopped.
    """
    # The log of the folders that are opened is none of the answer.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _with_place(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say where the users are; it gets a Place."""

    @click.option("--bootstrap-server", metavar="HOST:PORT", help="A broker that is running.")
    @click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        help="A client's properties file: security.protocol, ssl.truststore.*, sasl.mechanism, sasl.jaas.config.",
    )
    @config_options
    @wraps(command)
    def wrapped(
        bootstrap_server: str | None,
        command_config: str | None,
        config_files: tuple[str, ...],
        settings: tuple[str, ...],
        **more: Any,
    ) -> None:
        try:
            command(place=_place(bootstrap_server, command_config, config_files, settings), **more)
        except ConfigurationError as error:
            for problem in error.problems:
                click.echo(f"wrong configuration: {problem}", err=True)
            sys.exit(1)
        except UserToolError as error:
            raise click.ClickException(str(error)) from error

    return wrapped


def _place(
    bootstrap_server: str | None, command_config: str | None, config_files: Sequence[str], settings: Sequence[str]
) -> Place:
    if bootstrap_server is not None:
        if config_files or settings:
            raise UserToolError("--config and --set are for a broker that is stopped, without --bootstrap-server")
        properties = Path(command_config).read_text("iso-8859-1") if command_config else ""
        connection = Connection(bootstrap_server, properties)
        return Place(partial(over_the_wire.alter, connection), partial(over_the_wire.users, connection))
    if command_config is not None:
        raise UserToolError("--command-config: expected --bootstrap-server HOST:PORT with it")
    config = load_options(config_files, settings, opens_listeners=False).config
    return Place(partial(stopped_folder.alter, config), partial(stopped_folder.alter, config, ()))


@main.command()
@click.argument("name")
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice([*SCRAM_MECHANISMS]),
    default=["SCRAM-SHA-512"],
    show_default=True,
    help="May be repeated.",
)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="How often the password is hashed.",
)
@click.option("--password-file", type=click.File("rb"), help="The password is its first line; - is standard input.")
@_with_place
def add(name: str, mechanisms: Sequence[str], iterations: int, password_file: Any, place: Place) -> None:
    """Add a user, or give it a new password, which is asked for."""
    if not name.isprintable():  # nor has what a terminal gave as bytes that are no UTF-8
        raise UserToolError(f"the name {name!r} has characters that cannot be printed")
    password = _password(password_file)
    for mechanism in dict.fromkeys(mechanisms):
        place.alter([upsertion(name, SCRAM_MECHANISMS[mechanism], password, random.SystemRandom(), iterations)])
        click.echo(f"user {name} may log in with {mechanism}")


@main.command("list")
@_with_place
def list_(place: Place) -> None:
    """List the users, and their mechanisms."""
    for name, mechanisms in sorted(place.users().items()):
        shown = ", ".join(f"{NAMES[number]} ({count} iterations)" for number, count in sorted(mechanisms.items()))
        click.echo(f"{name}\t{shown}")


@main.command()
@click.argument("name")
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice([*SCRAM_MECHANISMS]),
    help="Only this; may be repeated. Without it, all that the user has.",
)
@_with_place
def delete(name: str, mechanisms: Sequence[str], place: Place) -> None:
    """Delete a user."""
    numbers: list[int] = [SCRAM_MECHANISMS[mechanism] for mechanism in mechanisms]
    numbers = numbers or sorted(place.users().get(name, {}))
    if not numbers:
        raise UserToolError(f"there is no user {name}")
    for number in numbers:
        place.alter([Deletion(name, number)])
        click.echo(f"user {name} may no longer log in with {NAMES[number]}")


def _password(file: Any) -> str:
    """Never an argument: others can read those."""
    if file is not None:
        password = _first_line(file)
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = _first_line(sys.stdin.buffer)
    if not password:
        raise UserToolError("the password is empty: expected it as the first line of --password-file, or of the input")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise UserToolError("the password is no text in UTF-8") from None
    return str(password)


def _first_line(file: BinaryIO) -> str:
    """The line that a line feed ends, perhaps after a carriage return; a byte order mark is none of it."""
    try:
        return file.readline().decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserToolError("the password: expected a text in UTF-8") from error
