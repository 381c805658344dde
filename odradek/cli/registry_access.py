"""Which schema registry a command asks, and what it says if that does not answer, or says no.

The registry is that of `-r`, of the setting `schema.registry.url` (`-X`, or the context), of `$SCHEMA_REGISTRY_URL`, or
else http://127.0.0.1:8081. Settings that begin with `schema.registry.` are the registry's; the rest of their names is
that of Confluent's clients. `SASL_INHERIT` as `basic.auth.credentials.source` takes name and password of the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from odradek.cli import contexts
from odradek.cli.general import General, given, registry_options, require_text
from odradek.cli.output import Output
from odradek.schemas.client import SETTINGS, USER_INFO, RegistryAway, RegistryClient, RegistryRefused
from odradek.schemas.errors import SchemaError

URL, USER = "SCHEMA_REGISTRY_URL", "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
DEFAULT_URL = "http://127.0.0.1:8081"
SOURCE = "basic.auth.credentials.source"
INHERITED = "SASL_INHERIT"


def client_of(general: General) -> RegistryClient:
    """A client of the registry that the options name. Raises UsageError."""
    found = contexts.chosen(general, is_another=general.registry)
    own = {
        name.removeprefix(contexts.REGISTRY): value
        for name, value in found.items()
        if name.startswith(contexts.REGISTRY)
    }
    url = own.pop("url", None)
    if general.registry or not url:
        url = general.registry or os.environ.get(URL) or DEFAULT_URL
        if os.environ.get(USER):
            own.setdefault(USER_INFO, os.environ[USER])
    try:
        return RegistryClient(url, _with_login(own, found), general.timeout)
    except ValueError as error:
        raise click.UsageError(f"the schema registry: {error}") from error


def _with_login(own: dict[str, str], cluster: dict[str, str]) -> dict[str, str]:
    """The settings with the cluster's user, if that is asked for. Raises ValueError."""
    source = own.pop(SOURCE, None)
    if source == INHERITED:
        if "sasl.username" not in cluster or "sasl.password" not in cluster:
            raise ValueError(f"{SOURCE}={INHERITED}, but there is no sasl.username and sasl.password")
        return {**own, USER_INFO: f"{cluster['sasl.username']}:{cluster['sasl.password']}"}
    if source not in (None, "USER_INFO", "URL"):
        raise ValueError(f"{SOURCE} = {source!r}: expected USER_INFO, URL or {INHERITED}")
    return own


def ended_by(error: SchemaError, client: RegistryClient) -> click.ClickException:
    """The exception with which a command ends because of it."""
    if isinstance(error, RegistryAway):
        return click.ClickException(f"no schema registry answers: {error} (-r URL, or ${URL}, names another)")
    if isinstance(error, RegistryRefused) and error.status == 401:
        login = ", ".join(f"-X {contexts.REGISTRY}{name}" for name in (SETTINGS[0], SETTINGS[1]))
        return click.ClickException(f"the schema registry at {client.name} refuses: {error} ({login} say who you are)")
    if isinstance(error, RegistryRefused):
        return click.ClickException(f"the schema registry at {client.name} refuses: {shown(error)}")
    return click.ClickException(str(error))


def shown(error: RegistryRefused) -> str:
    """What the registry says, with its error code."""
    return f"{error} (error {error.code})" if error.code else str(error)


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that say which registry; it gets a RegistryClient and an Output."""

    @wraps(command)
    def wrapped(**more: Any) -> None:
        general = given(click.get_current_context())
        require_text(more.values(), vars(general).values())
        out, client = Output(general.as_json), client_of(general)
        try:
            command(client, out, **more)
        except SchemaError as error:
            raise ended_by(error, client) from error
        finally:
            client.close()
        out.end()

    decorated: Callable[..., None] = registry_options(wrapped)
    return decorated


@contextmanager
def refusals(out: Output, **what: Any) -> Iterator[None]:
    """Print what the registry refuses of one of several things, so that the others are done."""
    try:
        yield
    except RegistryRefused as error:
        if error.status == 401:
            raise
        out.failure(what, str(error.code or error.status), shown(error))
