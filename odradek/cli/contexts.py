"""`odradek contexts list|add|use|remove`: the clusters that somebody works with, by name.

They are kept in a file that only its owner may read. No client library is needed for this.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import click

from odradek.cli.general import Commands, General, given, pairs
from odradek.cli.output import Output

FILE = "ODRADEK_CONTEXTS"
"""The environment variable that names another file."""


@dataclass
class Contexts:
    """`settings` of each context are those of librdkafka, with `bootstrap.servers`; `current` is the default."""

    current: str | None = None
    settings: dict[str, dict[str, str]] = field(default_factory=dict)


def path() -> Path:
    """The file with the contexts."""
    given = os.environ.get(FILE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "odradek" / "contexts.json"


def read() -> Contexts:
    """Read the file; without one there are no contexts. Raises ClickException if it is not as expected."""
    file = path()
    try:
        content = json.loads(file.read_bytes())
        current = content.get("current")
        settings = {
            str(name): {str(key): str(value) for key, value in values.items()}
            for name, values in content["contexts"].items()
        }
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise click.ClickException(
            f'{file}: expected {{"current": NAME, "contexts": {{NAME: {{"bootstrap.servers": ...}}}}}} ({error!r})'
        ) from error
    return Contexts(current, settings)


def write(contexts: Contexts) -> None:
    """Replace the file. Raises ClickException if it cannot be written."""
    file = path()
    text = json.dumps({"current": contexts.current, "contexts": contexts.settings}, indent=2)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.new")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
        new.replace(file)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error


def find(name: str | None) -> dict[str, str]:
    """The settings of the context with this name, or of the current one. Raises UsageError if there is none."""
    contexts = read()
    chosen = contexts.current if name is None else name
    if chosen is None:
        return {}
    if chosen not in contexts.settings:
        known = ", ".join(sorted(contexts.settings)) or "none"
        raise click.UsageError(f"there is no context {chosen!r}; known: {known} ({path()})")
    return contexts.settings[chosen]


BOOTSTRAP = "ODRADEK_BOOTSTRAP"
CONTEXT = "ODRADEK_CONTEXT"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
REGISTRY = "schema.registry."
"""Settings that begin so are those of the schema registry (`registry_access`), and not librdkafka's."""


def chosen(general: General, *, is_another: object) -> dict[str, str]:
    """The settings of the context and of -X. `is_another`: what the command is for is named without a context.

    Of the current context nothing is taken then: its passwords are for its own cluster and registry.
    """
    name = general.context or os.environ.get(CONTEXT)
    found = find(name or None) if name or not is_another else {}
    return {**found, **dict(pairs(general.settings, "-X"))}


def cluster_settings(general: General) -> dict[str, str]:
    """librdkafka's settings, with the cluster that -b or else the context names."""
    found = chosen(general, is_another=general.bootstrap)
    settings = {"bootstrap.servers": os.environ.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)}
    settings |= {name: value for name, value in found.items() if not name.startswith(REGISTRY)}
    if general.bootstrap:
        settings["bootstrap.servers"] = general.bootstrap
    return settings


SECRET = ("password", "secret", "token", "key.pem", "user.info")


@click.group("contexts", cls=Commands)
def main() -> None:
    """The clusters that you work with, by name, in ~/.config/odradek/contexts.json ($ODRADEK_CONTEXTS)."""


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the contexts; the current one has a star. Passwords are not shown."""
    found = read()
    rows = []
    for name, settings in sorted(found.settings.items()):
        more = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
        shown = [f"{key}={_without_secret(key, value)}" for key, value in more.items()]
        rows.append(["*" if name == found.current else "", name, settings.get("bootstrap.servers"), shown])
    Output(as_json or given(click.get_current_context()).as_json).table(
        ("current", "name", "bootstrap", "settings"), rows
    )


def _without_secret(name: str, value: str) -> str:
    return "***" if any(word in name for word in SECRET) else re.sub(r"//[^/@,]*@", "//***@", value)


@main.command()
@click.argument("name")
@click.argument("bootstrap", metavar="HOST:PORT,...")
@click.option("-X", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of librdkafka; may be repeated.")
@click.option("--password", is_flag=True, help="Ask for the password (sasl.password), which is never an argument.")
def add(name: str, bootstrap: str, settings: tuple[str, ...], password: bool) -> None:
    """Add a context, or replace it, and use it."""
    for hint, text in (("NAME", name), ("HOST:PORT", bootstrap)):
        if not text.strip():
            raise click.BadParameter("it is empty", param_hint=hint)
    given = {"bootstrap.servers": bootstrap, **dict(pairs(settings, "-X"))}
    if password:
        given["sasl.password"] = click.prompt("Password", hide_input=True)
    found = read()
    found.settings[name] = given
    found.current = name
    write(found)


@main.command()
@click.argument("name")
def use(name: str) -> None:
    """Make a context the current one."""
    find(name)
    found = read()
    found.current = name
    write(found)


@main.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a context."""
    find(name)
    found = read()
    del found.settings[name]
    if found.current == name:
        found.current = None
    write(found)
