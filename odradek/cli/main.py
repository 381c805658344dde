"""`odradek COMMAND`: the table of commands, each of which is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import click
from click.shell_completion import get_completion_class

from odradek.cli.general import Commands, General, client_libraries, general_options, given
from odradek.cli.known_names import SCRIPTS
from odradek.location import NODE_COMMANDS, become_the_node


class Entry(NamedTuple):
    """A command: where it is (a module, and its name in it unless that is `main`), what it does, and other names."""

    place: str
    help: str
    aliases: tuple[str, ...] = ()


COMMANDS = {
    "topics": Entry("topics", "List, create, describe, alter, delete and trim topics.", ("topic",)),
    "produce": Entry("streaming:produce", "Write records.", ("producer", "pub")),
    "consume": Entry("streaming:consume", "Read records.", ("consumer", "sub")),
    "groups": Entry("groups", "List, describe and delete groups, and reset or delete their offsets.", ("group",)),
    "acls": Entry("access:acls", "List, add and remove access rules.", ("acl",)),
    "users": Entry("operations:users", "List, add and delete users of SCRAM.", ("user",)),
    "quotas": Entry("access:quotas", "List, set and remove quotas of clients.", ("quota",)),
    "tokens": Entry("tokens", "Create, list, renew and expire delegation tokens.", ("token",)),
    "cluster": Entry("cluster", "The state of the cluster, its quorum, log directories and features.", ("brokers",)),
    "configs": Entry("configs", "List and set configurations of brokers and levels of loggers.", ("config",)),
    "client-metrics": Entry("client_metrics", "Subscriptions to metrics that clients push."),
    "top": Entry("top", "Watch a cluster: rates, lag of groups, brokers."),
    "check": Entry("check", "One line and an exit status, for a monitor.", ("monitor",)),
    "reassign": Entry("cluster:reassign", "Move partitions to other brokers.", ("reassignments",)),
    "tier": Entry("tier", "How far topics are in remote storage, and whether all of it is there."),
    "elect": Entry("elect", "Elect leaders: the preferred ones, or replicas that are not in sync."),
    "transactions": Entry("transactions", "List, describe and abort transactions.", ("transaction", "txn")),
    "registry": Entry("registry", "List, register, check, delete and move the schemas of a registry.", ("schemas",)),
    "bench": Entry("bench", "Measure how fast a cluster writes and reads.", ("benchmark", "perf")),
    "explain": Entry("operations:explain", "Say why a consumer gets nothing, and what to do."),
    "backup": Entry(
        "operations:backup", "Make, verify and restore a consistent copy of a running broker.", ("snapshot",)
    ),
    "doctor": Entry(
        "operations:doctor", "Look for what keeps clients from the cluster, or a broker from this machine."
    ),
    "contexts": Entry("contexts", "The clusters that you work with, by name.", ("context",)),
    "completion": Entry("main:completion", "Print the completion of a shell."),
}
ALIASES = {alias: name for name, entry in COMMANDS.items() for alias in entry.aliases}


class CommandLine(Commands):
    """All commands: those of the table, and those of the node's program."""

    other_words: ClassVar = {
        **dict.fromkeys(("start", "run", "server", "broker"), "serve"),
        "logs": "log",
        **SCRIPTS,
        **{f"kafka-{name}": own for name, own in {**{name: name for name in COMMANDS}, **SCRIPTS}.items()},
    }

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in NODE_COMMANDS and given(ctx) != General():
            ctx.fail(f"`odradek {args[0]}` is no client of a cluster: it takes none of the options before it")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*NODE_COMMANDS, *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in NODE_COMMANDS:
            return NodeCommand(cmd_name)
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        with client_libraries(cmd_name):
            command: click.Command = getattr(importlib.import_module(f"odradek.cli.{module}"), name or "main")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("A broker and its files"):
            formatter.write_dl(list(NODE_COMMANDS.items()))
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


class NodeCommand(click.Command):
    """A command of the node's program, which gets all arguments, and takes this process's place."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=NODE_COMMANDS[name], add_help_option=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # for a completion
            return []
        become_the_node([str(self.name), *args])


def _show_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from odradek import __version__  # which looks for the installed package: a fifth of a command's time

        click.echo(f"odradek {__version__}")
        ctx.exit()


@click.group("odradek", cls=CommandLine)
@general_options
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def odradek() -> None:
    """Run a Kafka broker, and work with a cluster, Odradek's or any other.

    `odradek COMMAND --help` says what a command takes. The cluster is that of -b, of --context, of $ODRADEK_CONTEXT, of
    the current context, of $ODRADEK_BOOTSTRAP, or else 127.0.0.1:9092. These options may stand anywhere.
    """


def main(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit status: 1 if the cluster refuses something, 2 for wrong arguments."""
    status: object = odradek.main(list(arguments), prog_name="odradek", standalone_mode=True)
    return status if isinstance(status, int) else 0


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of a shell: `eval "$(odradek completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click has no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "odradek", "_ODRADEK_COMPLETE").source())
