"""`odradek contexts list|add|use|remove`."""

from __future__ import annotations

import click

from odradek.cli import contexts as store
from odradek.cli.arguments import pairs
from odradek.cli.general_options import given
from odradek.cli.groups_of_commands import Commands
from odradek.cli.output import Output

SECRET = ("password", "secret", "token", "key.pem")


@click.group("contexts", cls=Commands)
def main() -> None:
    """The clusters that you work with, by name, in ~/.config/odradek/contexts.json ($ODRADEK_CONTEXTS)."""


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the contexts; the current one has a star. Passwords are not shown."""
    found = store.read()
    rows = []
    for name, settings in sorted(found.settings.items()):
        more = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
        shown = [f"{key}={'***' if any(word in key for word in SECRET) else value}" for key, value in more.items()]
        rows.append(["*" if name == found.current else "", name, settings.get("bootstrap.servers"), shown])
    Output(as_json or given(click.get_current_context()).as_json).table(
        ("current", "name", "bootstrap", "settings"), rows
    )


@main.command()
@click.argument("name")
@click.argument("bootstrap", metavar="HOST:PORT,...")
@click.option("-X", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of librdkafka; may be repeated.")
@click.option("--password", is_flag=True, help="Ask for the password (sasl.password), which is never an argument.")
def add(name: str, bootstrap: str, settings: tuple[str, ...], password: bool) -> None:
    """Add a context, or replace it, and use it."""
    given = {"bootstrap.servers": bootstrap, **dict(pairs(settings, "-X"))}
    if password:
        given["sasl.password"] = click.prompt("Password", hide_input=True)
    found = store.read()
    found.settings[name] = given
    found.current = name
    store.write(found)


@main.command()
@click.argument("name")
def use(name: str) -> None:
    """Make a context the current one."""
    store.find(name)
    found = store.read()
    found.current = name
    store.write(found)


@main.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a context."""
    store.find(name)
    found = store.read()
    del found.settings[name]
    if found.current == name:
        found.current = None
    store.write(found)
