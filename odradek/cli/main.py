"""The command line: a table of commands, each of which is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple

import click
from click.shell_completion import get_completion_class

from odradek import __version__
from odradek.cli.general import Commands, general_options

LIBRARIES = ("confluent_kafka", "kafka")


class Entry(NamedTuple):
    """A command: where it is (a module, and its name in it unless that is `main`), what it does, and other names."""

    place: str
    help: str
    aliases: tuple[str, ...] = ()


COMMANDS = {
    "topics": Entry("topics", "List, create, describe, alter, delete and trim topics.", ("topic",)),
    "produce": Entry("streaming:produce", "Write records.", ("producer", "pub")),
    "consume": Entry("streaming:consume", "Read records.", ("consumer", "sub")),
    "groups": Entry("groups", "List, describe and delete groups, and reset their offsets.", ("group",)),
    "acls": Entry("access:acls", "List, add and remove access rules.", ("acl",)),
    "users": Entry("access:users", "List, add and delete users of SCRAM.", ()),
    "quotas": Entry("access:quotas", "List, set and remove quotas of clients.", ("quota",)),
    "cluster": Entry("cluster", "The state of the cluster.", ("brokers",)),
    "reassign": Entry("cluster:reassign", "Move partitions to other brokers.", ("reassignments",)),
    "transactions": Entry("transactions", "List, describe and abort transactions.", ("transaction", "txn")),
    "bench": Entry("bench", "Measure how fast a cluster writes and reads.", ("benchmark", "perf")),
    "explain": Entry("explain", "Say why a consumer gets nothing, and what to do."),
    "backup": Entry("cluster:backup", "Make a consistent copy of a running broker."),
    "doctor": Entry("cluster:doctor", "Look for what keeps clients from the cluster, or a broker from this machine."),
    "contexts": Entry("contexts", "The clusters that you work with, by name.", ("context",)),
    "completion": Entry("main:completion", "Print the completion of a shell.", ()),
}
ALIASES = {alias: name for name, entry in COMMANDS.items() for alias in entry.aliases}


class CommandLine(Commands):
    """All commands; a module is imported when its command is used."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and args[0] in (ctx.obj or ()):
            ctx.fail(f"`odradek {args[0]}` is no client of a cluster: it takes none of the options before it")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        try:
            module, _, name = entry.place.partition(":")
            command: click.Command = getattr(importlib.import_module(f"odradek.cli.{module}"), name or "main")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in LIBRARIES:
                raise
            raise click.ClickException(
                f"odradek {cmd_name} needs {error.name}, which is not installed: pip install '/path/to/odradek[cli]'"
            ) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group("odradek", cls=CommandLine)
@general_options
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def odradek() -> None:
    """Work with a Kafka cluster, Odradek's or any other.

    The cluster is that of -b, of --context, of $ODRADEK_CONTEXT, of the current context, of $ODRADEK_BOOTSTRAP, or else
    127.0.0.1:9092. The options may stand anywhere.
    """


def main(arguments: Sequence[str], others: Sequence[str] = ()) -> int:
    """Run a command, and return its exit status: 1 if the cluster refuses something, 2 for wrong arguments.

    `others` are the commands that are no clients of a cluster.
    """
    found: object = odradek.main(list(arguments), prog_name="odradek", standalone_mode=True, obj=others)
    return found if isinstance(found, int) else 0


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of a shell: `eval "$(odradek completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click has no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "odradek", "_ODRADEK_COMPLETE").source())
