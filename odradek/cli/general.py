"""The common part of commands: the options that may stand anywhere, arguments, and groups of commands."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import click

from odradek.cli.deferred import defer
from odradek.cli.known_names import WithKnownNames, command_first, known_command

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


DEFAULT_TIMEOUT_S = 30.0
LONGEST_TIMEOUT_S = 300
"""librdkafka's."""
_KEY = "odradek.general_options"


@dataclass
class General:
    """The options that were given so far. Of an option that was given twice, the last one counts; settings add up."""

    bootstrap: str | None = None
    context: str | None = None
    settings: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT_S
    as_json: bool = False
    registry: str | None = None


def given(ctx: click.Context) -> General:
    """The general options of this command and of those before it."""
    found: General = ctx.meta.setdefault(_KEY, General())
    return found


def names_cluster() -> bool:
    """Whether the command line names a cluster: without one, some commands do not ask any."""
    general = given(click.get_current_context())
    return bool(general.bootstrap or general.context)


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


registry_option = _option(
    "-r", "--registry", metavar="URL,...", help="The schema registry; default: $SCHEMA_REGISTRY_URL."
)


def general_options(command: Any, hidden: bool = False) -> Any:
    """The command, or its function, with these options. What is given is kept, and not passed to the function."""
    return _with(_OPTIONS, command, hidden)


def registry_options(command: Any, hidden: bool = False) -> Any:
    """As `general_options`, for a command that asks a schema registry and no cluster."""
    return _with((registry_option, *_OPTIONS[1:]), command, hidden)


def _with(options: Iterable[Any], command: Any, hidden: bool) -> Any:
    for option in reversed([*options]):
        command = option(hidden=hidden)(command)
    return command


LIBRARIES = ("confluent_kafka", "kafka")


@contextmanager
def client_libraries(command: str) -> Iterator[None]:
    """Say how to install a client library that an import within the block lacks. Raises ClickException."""
    defer("asyncio")
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in LIBRARIES:
            raise
        raise click.ClickException(
            f"odradek {command} needs {error.name}, which is not installed: pip install '/path/to/odradek[cli]'"
        ) from error


class Commands(click.Group):
    """A group of commands, in which a wrong name is answered with the nearest right one.

    Attributes:
        other_words: words that people try for a command of this group, and are not taken for it.
    """

    command_class = WithKnownNames
    other_words: ClassVar[Mapping[str, str]] = {}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, known_command(self.name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(wrong_command(name, self.list_commands(ctx), self.other_words))
        return super().resolve_command(ctx, args)


class ClusterCommands(Commands):
    """A group of commands for a cluster: the general options may also stand between its name and the command's."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        general_options(self, hidden=True)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, command_first(args, lambda name: self.get_command(ctx, name) is not None))


class RegistryCommands(Commands):
    """A group of commands for a schema registry, as `ClusterCommands`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        registry_options(self, hidden=True)


def wrong_command(name: str, known: Collection[str], synonyms: Mapping[str, str] | None = None) -> str:
    """Say that a command does not exist, and which one is nearest."""
    words = {**{name: name for name in known}, **(synonyms or {})}
    near = difflib.get_close_matches(name, words, n=1, cutoff=0.5)
    hint = f"did you mean {words[near[0]]}?" if near else f"there are {', '.join(known)}"
    return f"there is no command {name!r}; {hint}"


def read_password(file: str | None) -> str:
    """Return the first line of the file or of the input, or what a person types. Never an argument: others read those.

    The line ends at a line feed, perhaps after a carriage return; a byte order mark is none of it.
    """
    if file is None and sys.stdin.isatty():
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    else:
        try:
            with click.open_file("-" if file is None else file, "rb") as opened:
                password = opened.readline().decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise click.ClickException("the password: expected a text in UTF-8") from error
        except OSError as error:
            raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--password-file") from error
    if not password:
        raise click.ClickException(
            "the password is empty: expected it as the first line of --password-file, or of the input"
        )
    try:
        password.encode()
    except UnicodeEncodeError:
        raise click.ClickException("the password is no text in UTF-8") from None
    return password
