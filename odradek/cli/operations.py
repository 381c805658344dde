"""`odradek explain`, `doctor`, `backup` and `users`: what somebody who runs brokers asks for.

Each of them has up to three ways, and its arguments say which: as a client of a cluster (`-b`, `--context`), by the
control interface of a running broker (`--control`), or on this machine without a broker, by the node's program. Only
the first needs the client libraries, which are imported for it alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import Any

import click

from odradek.cli.general import (
    LIBRARIES,
    ClusterCommands,
    client_libraries,
    general_options,
    given,
    names_cluster,
)
from odradek.cli.output import Output, print_explanation
from odradek.cli.scram import with_mechanisms, with_new_password
from odradek.control import ControlClient, ControlError, ControlUnavailableError
from odradek.location import become_the_node
from odradek.report import Explanation

CONTROL, TOKEN = "ODRADEK_CONTROL", "ODRADEK_CONTROL_TOKEN"
"""The environment variables of the broker's settings `odradek.control` and `odradek.control.token`."""
DEFAULT_CONTROL = "127.0.0.1:9405"

KINDS = {"group": "group", "topic": "topic", "transaction": "transactional_id"}
"""The things that a broker explains, with the names of its parameters."""
WORDS = ("error", "setting")
"""The things that the node's program explains."""


# -- by the control interface


def _control_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that name a control interface; it gets `control`, its address, and `token`."""
    for option in (
        click.option(
            "--token", default=lambda: os.environ.get(TOKEN), help=f"Its odradek.control.token; default: ${TOKEN}."
        ),
        click.option(
            "--control",
            metavar="HOST:PORT",
            default=lambda: os.environ.get(CONTROL) or DEFAULT_CONTROL,
            help=f"A broker's control interface (odradek serve --control); default: ${CONTROL}, or {DEFAULT_CONTROL}.",
        ),
    ):
        command = option(command)
    return command


class _NotExplained(click.ClickException):
    """The broker could not be asked; status 1 is that of an explanation with a problem."""

    exit_code = 2


@contextmanager
def _control_client(
    address: str, token: str | None, refused: type[click.ClickException] = click.ClickException
) -> Iterator[ControlClient]:
    """Give the client of a control interface; what that refuses ends the command with this exception."""
    try:
        client = ControlClient(address if "://" in address else f"http://{address}", token)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--control") from error
    try:
        yield client
    except ControlError as error:
        text = str(error)
        if isinstance(error, ControlUnavailableError):
            text += (
                f" (a broker has it with odradek serve --control {DEFAULT_CONTROL}; --control HOST:PORT names another)"
            )
        raise refused(text) from error
    finally:
        client.close()


class _Explain(click.Command):
    """Takes `--group NAME` and `--group=NAME` for `group NAME`, as the first releases did."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {f"--{parameter.replace('_', '-')}": kind for kind, parameter in KINDS.items()}
        found: list[str] = []
        for argument in args:
            option, has_value, value = argument.partition("=")
            kind = options.get(option)
            found += [argument] if kind is None else [kind, value] if has_value else [kind]
        return super().parse_args(ctx, found)


@click.command("explain", cls=_Explain)
@click.argument("kind", type=click.Choice([*KINDS, *WORDS]))
@click.argument("name")
@_control_options
@general_options
def explain(kind: str, name: str, control: str, token: str | None) -> None:
    """Say why a consumer gets nothing, and what to do; the exit status is 1 if there is a problem.

    With -b a cluster is asked: a broker of Odradek answers what it knows, for whom ACLs allow ALTER on the cluster. Of
    any other Kafka it is what a client can know. Without -b, the control interface of a broker is asked. `odradek
    explain error NAME` and `odradek explain setting NAME` say what these mean.
    """
    as_json = given(click.get_current_context()).as_json
    if kind in WORDS:
        become_the_node(["explain", kind, *(["--json"] if as_json else []), "--", name])
    if names_cluster():
        with client_libraries("explain"):
            from odradek.cli.connection import on_cluster
            from odradek.cli.explain import explain as explain_as_client
        on_cluster(explain_as_client, kind=kind, name=name)
        return
    with _control_client(control, token, _NotExplained) as client:
        answer = client.get("/explain", **{KINDS[kind]: name})
    print_explanation(Output(as_json), Explanation(answer))


# -- backups


@click.group("backup", cls=ClusterCommands)
def backup() -> None:
    """Make a consistent copy of a running broker of Odradek, and go back to it.

    `restore`, and `create` without -b, ask the control interface of a broker; `verify` reads a backup's folder.
    """


@backup.command()
@click.argument("path")
@_control_options
@general_options
def create(path: str, control: str, token: str | None) -> None:
    """Make a backup, with -b in the folder of the broker's machine that its setting odradek.backup.folder names.

    PATH is then its name there. It asks for ALTER on the cluster. Without -b, PATH is a new folder of the broker's
    machine.
    """
    if names_cluster():
        with client_libraries("backup"):
            from odradek.cli.cluster import create_backup
            from odradek.cli.connection import on_cluster
        on_cluster(create_backup, path=path)
        return
    with _control_client(control, token) as client:
        saved = client.post("/snapshots", path=os.path.abspath(path))
    out = Output(given(click.get_current_context()).as_json)
    out.result({"backup": saved["path"], "bytes": saved["bytes"]}, f"{saved['bytes']} bytes")
    out.end()


@backup.command()
@click.argument("path")
@_control_options
def restore(path: str, control: str, token: str | None) -> None:
    """Have a running broker go back to the backup in the folder PATH of its machine. Clients stay connected.

    A broker that is new begins with it if odradek.snapshot names it.
    """
    path = os.path.abspath(path)
    with _control_client(control, token) as client:
        client.post("/snapshots/restore", path=path)
    click.echo(f"{path}: the broker is as it was at that moment")


@backup.command()
@click.argument("path")
def verify(path: str) -> None:
    """Say whether the backup in the folder PATH is whole; nothing is changed. The exit status is 1 if it is not."""
    become_the_node(["backup", "verify", path])


# -- a broker's machine


def _broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options of a broker's configuration; it gets them as `config`, arguments of the node."""

    @click.option("-c", "--config", "files", multiple=True, metavar="FILE", help="A broker's server.properties.")
    @click.option("--set", "own", multiple=True, metavar="KEY=VALUE", help="A broker's setting; may be repeated.")
    @wraps(command)
    def wrapped(files: Sequence[str], own: Sequence[str], **more: Any) -> None:
        command(config=[*(f"--config={file}" for file in files), *(f"--set={setting}" for setting in own)], **more)

    return wrapped


@click.command("doctor")
@_broker_options
@general_options
def doctor(config: list[str]) -> None:
    """Look for what keeps clients on this machine from a cluster; without -b, at this machine as a broker's.

    Of a cluster, each broker's advertised address is looked up and connected to. Of this machine, the settings
    (--config and --set, as for `odradek serve`), folders, limits, clock and ports are looked at. The exit status is 1
    for a problem.
    """
    if not names_cluster():
        as_json = given(click.get_current_context()).as_json
        become_the_node(["doctor", *config, *(["--json"] if as_json else [])])
    if config:
        raise click.UsageError("--config and --set are for this machine, without -b and --context")
    with client_libraries("doctor"):
        from odradek.cli.cluster import examine
        from odradek.cli.connection import on_cluster
    on_cluster(examine)


# -- users


@click.group("users", cls=ClusterCommands)
def users() -> None:
    """List, add and delete users of SCRAM, of a cluster or in the folders of a broker that is stopped (--set log.dirs).

    With --command-config, a properties file of Kafka's Java clients says how to log in to the cluster.
    """


def _with_place(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that say where the users are.

    It gets `place`: arguments of the node's program, which works on the folders of a broker that is stopped, and on a
    cluster for which a Java client's properties are given, or no client library is installed. Else it is empty.
    """

    @click.option("--command-config", metavar="FILE", help="A Java client's properties; with -b.")
    @_broker_options
    @general_options
    @wraps(command)
    def wrapped(command_config: str | None, config: list[str], **more: Any) -> None:
        general = given(click.get_current_context())
        place = [*config, *([] if command_config is None else [f"--command-config={command_config}"])]
        if place and (general.context or general.settings or general.as_json):
            raise click.UsageError("--context, -X and --json: expected none with --config, --set or --command-config")
        if general.bootstrap and (place or not all(map(find_spec, LIBRARIES))):
            place.append(f"--bootstrap-server={general.bootstrap}")
        command(place=place, **more)

    return wrapped


def _on_cluster(function: str, **more: Any) -> None:
    with client_libraries("users"):
        from odradek.cli import access
        from odradek.cli.connection import on_cluster
    on_cluster(getattr(access, function), **more)


@users.command("list")
@_with_place
def list_(place: list[str]) -> None:
    """List the users, and their mechanisms."""
    if place:
        become_the_node(["users", "list", *place])
    _on_cluster("list_users")


@users.command()
@click.argument("name")
@with_new_password
@_with_place
def add(name: str, mechanisms: Sequence[str], iterations: int, password_file: str | None, place: list[str]) -> None:
    """Add a user, or give it a new password, which is asked for."""
    if place:
        more = [] if password_file is None else [f"--password-file={password_file}"]
        more += [f"--mechanism={mechanism}" for mechanism in mechanisms]
        become_the_node(["users", "add", *more, f"--iterations={iterations}", *place, "--", name])
    _on_cluster("add_user", name=name, mechanisms=mechanisms, iterations=iterations, password_file=password_file)


@users.command()
@click.argument("name")
@with_mechanisms
@_with_place
def delete(name: str, mechanisms: Sequence[str], place: list[str]) -> None:
    """Delete a user."""
    if place:
        become_the_node(["users", "delete", *(f"--mechanism={each}" for each in mechanisms), *place, "--", name])
    _on_cluster("delete_user", name=name, mechanisms=mechanisms)
