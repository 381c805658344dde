"""`odradek completion bash|zsh|fish`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def main(shell: str) -> None:
    """Print the completion of a shell: `eval "$(odradek completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click has no completion for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "odradek", "_ODRADEK_COMPLETE").source())
