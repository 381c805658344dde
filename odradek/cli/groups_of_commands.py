"""Groups of commands in which a wrong name is answered with the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

import click

from odradek.cli.general_options import general_options

SYNONYMS = {"ls": "list", "show": "describe", "get": "describe", "new": "create", "rm": "delete", "remove": "delete"}
SYNONYMS |= {"add": "create", "set": "alter", "edit": "alter", "purge": "trim"}
SYNONYMS |= {"delete": "remove", "create": "add", "describe": "list", "alter": "set"}
"""Words that people try; one counts where the group has no such command, but the other."""


class Commands(click.Group):
    """A group of commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, SYNONYMS.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(wrong_command(name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class ClusterCommands(Commands):
    """A group of commands for a cluster: the general options may also stand between its name and the command's."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        general_options(self, hidden=True)


def wrong_command(name: str, known: Collection[str], synonyms: Mapping[str, str] | None = None) -> str:
    """What is said about a command that does not exist."""
    words = {**{one: one for one in known}, **(synonyms or {})}
    near = difflib.get_close_matches(name, words, n=1, cutoff=0.5)
    hint = f"did you mean {words[near[0]]}?" if near else f"there are {', '.join(known)}"
    return f"there is no command {name!r}; {hint}"
