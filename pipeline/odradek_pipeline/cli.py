"""The command line: every module of `pipeline.commands` is a subcommand, imported when needed."""

from __future__ import annotations

import importlib
import pkgutil

import click

from odradek_pipeline import commands


class CommandFolder(click.Group):
    """A group whose subcommands are the modules of `pipeline.commands`, with `-` for `_` in their names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=CommandFolder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Jobs on Apache Spark beside an Odradek (or any Kafka) broker."""
