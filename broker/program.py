"""The commands of the node's program.

Each command is a module, which is imported when the command is used: a tool for files imports no node.
"""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "serve": ("broker.serve", "serve", "Run a broker, or several."),
    "log": ("broker.admin.logs", "main", "Inspect or repair the files of a log."),
    "backup": ("broker.admin.logs", "backup", "Verify a backup."),
    "format": ("broker.admin.format", "main", "Format the folders of log.dirs, as kafka-storage format does."),
    "users": ("broker.admin.users", "main", "The users of SCRAM: add, list, delete."),
    "metadata": ("broker.admin.metadata_log", "main", "Print the records of a metadata log."),
    "explain": ("broker.admin.reference", "main", "Say what an error or a setting means."),
    "doctor": ("broker.admin.doctor", "main", "Look for what would keep a broker from running well here."),
}
"""By name: module, command in it, and what it does."""


class Program(click.Group):
    """The commands of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.group(cls=Program)
def main() -> None:
    """Odradek, a Kafka broker."""
