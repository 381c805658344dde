"""`odradek users list|add|delete`: the users of SCRAM of a cluster; those of a stopped broker are `odradek user`."""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

import click
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from odradek.cli.connection import Cluster, connected, settle
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.output import Output

MECHANISMS = {each.name.replace("_", "-"): each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN}
NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}
ITERATIONS = 4096
SALT_BYTES = 32


@click.group("users", cls=ClusterCommands)
def main() -> None:
    """List, add and delete users of SCRAM. `odradek user` does it for a broker that is stopped."""


def _users(cluster: Cluster) -> dict[str, Any]:
    asked: Any = cluster.admin().describe_user_scram_credentials()
    found: dict[str, Any] = asked.result()
    return found


@main.command("list")
@connected
def list_(cluster: Cluster, out: Output) -> None:
    """List the users, and their mechanisms."""
    rows = [
        (name, NAMES.get(one.mechanism, str(one.mechanism)), one.iterations)
        for name, about in sorted(_users(cluster).items())
        for one in sorted(about.scram_credential_infos, key=lambda info: NAMES.get(info.mechanism, ""))
    ]
    out.table(("user", "mechanism", "iterations"), rows)


@main.command()
@click.argument("name")
@click.option("-m", "--mechanism", type=click.Choice([*MECHANISMS]), default="SCRAM-SHA-512", show_default=True)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=ITERATIONS, show_default=True)
@click.option("--password-file", type=click.File("rb"), help="The password is its first line; - is standard input.")
@connected
def add(cluster: Cluster, out: Output, name: str, mechanism: str, iterations: int, password_file: Any) -> None:
    """Add a user, or give it a new password, which is asked for."""
    if not name:
        raise click.BadParameter("it is empty", param_hint="NAME")
    if password_file is not None:
        password = _first_line(password_file)
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = _first_line(sys.stdin.buffer)
    if not password:
        raise click.ClickException(
            "the password is empty: expected it as the first line of --password-file or the input"
        )
    info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
    wanted = UserScramCredentialUpsertion(name, info, password.encode(), os.urandom(SALT_BYTES))
    futures = cluster.admin().alter_user_scram_credentials([wanted])
    settle(out, "user", futures, f"may log in with {mechanism}")


@main.command()
@click.argument("name")
@click.option("-m", "--mechanism", type=click.Choice([*MECHANISMS]), help="Only this; default: all that the user has.")
@connected
def delete(cluster: Cluster, out: Output, name: str, mechanism: str | None) -> None:
    """Delete a user."""
    about = _users(cluster).get(name)
    had = [one.mechanism for one in about.scram_credential_infos] if about is not None else []
    wanted = [MECHANISMS[mechanism]] if mechanism else had
    if not wanted:
        raise click.ClickException(f"there is no user {name}")
    admin = cluster.admin()
    for one in wanted:
        futures = admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, one)])
        settle(out, "user", futures, f"may no longer log in with {NAMES[one]}")


def _first_line(file: BinaryIO) -> str:
    """The line that a line feed ends, perhaps after a carriage return; a byte order mark is none of it."""
    try:
        return file.readline().decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise click.ClickException("the password: expected a text in UTF-8") from error
