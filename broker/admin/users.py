"""`odradek users add|list|delete`: the users of SCRAM, of a running broker or in the folders of a stopped one.

A running broker is asked as Kafka's tools ask (KIP-554). Of a stopped one the metadata log is read, and written as its
controller does; nobody else can open the folders meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import wraps
from pathlib import Path
from typing import Any

import click
import structlog
from kio.schema.alter_user_scram_credentials.v0 import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialDeletion, ScramCredentialUpsertion
from kio.schema.describe_user_scram_credentials.v0 import DescribeUserScramCredentialsRequest
from kio.schema.errors import ErrorCode

from broker.admin import wrong_configuration_ends
from broker.config.broker_config import PROVIDERS, BrokerConfig, ConfigurationError, CurrentConfig
from broker.config.controllers import INTER_BROKER_MECHANISM, outgoing_problems
from broker.config.environment import parse_properties
from broker.config.listeners import Listener
from broker.config.providers import read_providers, resolved
from broker.config.sources import config_options, load_options
from broker.membership.standalone import StandaloneMetadata
from broker.metadata_opening import open_metadata
from broker.node_state import Base, Seams, new_base
from broker.peers.call import PeerError, entity_call
from broker.peers.client import PeerClient, PeerNetwork, PeerSettings, ask_versions
from broker.security.as_client import secured
from controller.quorum.survey import FOLDER_NAME, OLD_BOOTSTRAP
from controller.scram import (
    SCRAM_MECHANISMS,
    Alteration,
    ScramDeletion,
    ScramUpsertion,
    decide,
    upsertion,
)
from odradek.cli.general import read_password
from odradek.cli.scram import with_mechanisms, with_new_password
from protocol.errors import KafkaError
from protocol.schema import Entity
from storage.files import OsFileSystem
from storage.folders.log_dirs import LogDirError, LogDirs
from storage.workers import ThreadWorkers
from timing.clock import SystemClock

Users = dict[str, dict[int, int]]
"""By user: the iterations, by the number of the mechanism."""


class UserToolError(click.ClickException):
    """The command cannot be done; the message says why, and has no password."""


TIMEOUT_MS = 30_000.0
_NAME = "TOOL"
NAMES = {int(number): name for name, number in SCRAM_MECHANISMS.items()}


@click.group("users")
def main() -> None:
    """Add, list and delete the users of SCRAM.

    Of a running broker with --bootstrap-server, or else in the folders of log.dirs of one that is stopped.
    """
    # The log of the folders that are opened is none of the answer.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _with_place(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options that say where the users are; it gets that as `place`."""

    @click.option("--bootstrap-server", metavar="HOST:PORT", help="A broker that is running.")
    @click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        help="A client's properties file: security.protocol, ssl.truststore.*, sasl.mechanism, sasl.jaas.config.",
    )
    @config_options
    @wraps(command)
    def wrapped(
        bootstrap_server: str | None,
        command_config: str | None,
        config_files: tuple[str, ...],
        settings: tuple[str, ...],
        **more: Any,
    ) -> None:
        with wrong_configuration_ends():
            command(place=_place(bootstrap_server, command_config, config_files, settings), **more)

    return wrapped


def _place(
    bootstrap_server: str | None, command_config: str | None, config_files: Sequence[str], settings: Sequence[str]
) -> Place:
    if bootstrap_server is not None:
        if config_files or settings:
            raise UserToolError("--config and --set are for a broker that is stopped, without --bootstrap-server")
        properties = Path(command_config).read_text("iso-8859-1") if command_config else ""
        return RunningBroker(bootstrap_server, properties)
    if command_config is not None:
        raise UserToolError("--command-config: expected --bootstrap-server HOST:PORT with it")
    return StoppedBroker(load_options(config_files, settings, opens_listeners=False).config)


@main.command()
@click.argument("name")
@with_new_password
@_with_place
def add(
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: str | None,
    place: Place,
) -> None:
    """Add a user, or give it a new password, which is asked for."""
    if not name.isprintable():  # nor has what a terminal gave as bytes that are no UTF-8
        raise UserToolError(f"the name {name!r} has characters that cannot be printed")
    password = read_password(password_file)
    for mechanism in dict.fromkeys(mechanisms):
        place.alter([upsertion(name, SCRAM_MECHANISMS[mechanism], password, random.SystemRandom(), iterations)])
        click.echo(f"user {name} may log in with {mechanism}")


@main.command("list")
@_with_place
def list_(place: Place) -> None:
    """List the users, and their mechanisms."""
    for name, mechanisms in sorted(place.users().items()):
        shown = ", ".join(f"{NAMES[number]} ({count} iterations)" for number, count in sorted(mechanisms.items()))
        click.echo(f"{name}\t{shown}")


@main.command()
@click.argument("name")
@with_mechanisms
@_with_place
def delete(name: str, mechanisms: Sequence[str], place: Place) -> None:
    """Delete a user."""
    numbers: list[int] = [SCRAM_MECHANISMS[mechanism] for mechanism in mechanisms]
    numbers = numbers or sorted(place.users().get(name, {}))
    if not numbers:
        raise UserToolError(f"there is no user {name}")
    for number in numbers:
        place.alter([ScramDeletion(name, number)])
        click.echo(f"user {name} may no longer log in with {NAMES[number]}")


class RunningBroker:
    """A broker that is asked; `client_properties` are those of Kafka's `--command-config`. Raises UserToolError."""

    def __init__(self, bootstrap_server: str, client_properties: str) -> None:
        self.host, _, port = bootstrap_server.rpartition(":")
        if not self.host.isprintable() or not self.host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
            raise UserToolError(f"--bootstrap-server {bootstrap_server!r}: expected HOST:PORT")
        self.port = int(port)
        try:
            given = parse_properties(client_properties)
            if PROVIDERS in given:
                given = resolved(given, read_providers(given, os.environ))
            given[INTER_BROKER_MECHANISM] = given.pop("sasl.mechanism", "PLAIN")
            self.config = BrokerConfig.of(given)
        except (ValueError, ConfigurationError) as error:
            raise UserToolError(f"--command-config: {error}") from error
        self.listener = Listener(_NAME, given.get("security.protocol", "PLAINTEXT").upper(), "", 0)
        problems = [*outgoing_problems(self.config, self.listener, INTER_BROKER_MECHANISM)]
        if problems:
            raise UserToolError(f"--command-config: {problems[0].replace(INTER_BROKER_MECHANISM, 'sasl.mechanism')}")

    def _answer(self, request: Entity) -> Any:
        """The broker's answer. Raises UserToolError."""
        try:
            return asyncio.run(self._ask(request))
        except PeerError as error:
            raise UserToolError(str(error)) from error

    async def _ask(self, request: Entity) -> Any:
        loop = asyncio.get_running_loop()
        workers = ThreadWorkers(loop)
        network = PeerNetwork(SystemClock(loop), random.SystemRandom())
        network = secured(network, CurrentConfig(self.config), self.listener, workers, INTER_BROKER_MECHANISM)
        client = PeerClient(self.host, self.port, PeerSettings("odradek-user"), network, ask_versions)
        try:
            return await client.send(entity_call(request), TIMEOUT_MS)
        finally:
            client.close()
            workers.close()

    def alter(self, alterations: Sequence[Alteration]) -> None:
        """Do this. Raises UserToolError for the first that is refused; the others are done."""
        request = AlterUserScramCredentialsRequest(
            deletions=tuple(
                ScramCredentialDeletion(name=alteration.user, mechanism=alteration.mechanism)
                for alteration in alterations
                if isinstance(alteration, ScramDeletion)
            ),
            upsertions=tuple(
                ScramCredentialUpsertion(
                    name=alteration.user,
                    mechanism=alteration.mechanism,
                    iterations=alteration.iterations,
                    salt=alteration.salt,
                    salted_password=alteration.salted_password,
                )
                for alteration in alterations
                if isinstance(alteration, ScramUpsertion)
            ),
        )
        for result in self._answer(request).results:
            _require(result)

    def users(self) -> Users:
        """Ask who there is. Raises UserToolError."""
        answer = self._answer(DescribeUserScramCredentialsRequest(users=None))
        _require(answer)
        return {
            result.user: {info.mechanism: info.iterations for info in result.credential_infos}
            for result in answer.results
        }


def _require(result: Any) -> None:
    if result.error_code is not ErrorCode.none:
        raise UserToolError(result.error_message or f"the broker answers {result.error_code.name}")


NEW = (
    "{} has no metadata yet: format it with its first users, odradek format --cluster-id ID --add-scram "
    "'SCRAM-SHA-512=[name=...,password=...]', or start the broker once"
)


class StoppedBroker:
    """A broker that does not run, in the folders of its `log.dirs`."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def alter(self, alterations: Sequence[Alteration]) -> Users:
        """Do this, and return who there is then. Raises UserToolError."""
        try:
            return asyncio.run(_alter(self._config, alterations))
        except (LogDirError, KafkaError, OSError) as error:
            raise UserToolError(str(error)) from error

    def users(self) -> Users:
        """Read who there is. Raises UserToolError."""
        return self.alter(())


Place = RunningBroker | StoppedBroker


async def _alter(config: BrokerConfig, alterations: Sequence[Alteration]) -> Users:
    if config.is_in_cluster:
        raise UserToolError("the users of a cluster are with its controllers: name a broker, --bootstrap-server")
    workers = ThreadWorkers(asyncio.get_running_loop())
    clock = SystemClock(asyncio.get_running_loop())
    base = new_base(config, Seams(clock, OsFileSystem(), workers, random.SystemRandom()))
    async with AsyncExitStack() as undo:
        undo.callback(workers.close)
        dirs = _locked(base)
        undo.callback(dirs.unlock)
        folder = dirs.dirs[0].path
        if not any(OsFileSystem().exists(f"{folder}/{name}") for name in (FOLDER_NAME, OLD_BOOTSTRAP)):
            raise UserToolError(NEW.format(folder))
        metadata = await open_metadata(base, dirs, undo)
        assert isinstance(metadata, StandaloneMetadata)  # it is in no cluster
        if not metadata.cache.image.features:
            raise UserToolError(NEW.format(folder))
        if alterations:
            await _write(metadata, dirs, alterations)
        return _users(metadata)


def _locked(base: Base) -> LogDirs:
    config = base.current.config
    for path in config.log_dirs:
        if not OsFileSystem().exists(f"{path}/meta.properties"):
            raise UserToolError(NEW.format(path))
    return LogDirs.open(
        base.seams.fs,
        list(config.log_dirs),
        node_id=base.node_id,
        new_id=base.new_id,
        now_ms=base.seams.clock.wall_ms(),
        cluster_id=config.optional_string("odradek.cluster.id"),
    )


async def _write(metadata: StandaloneMetadata, dirs: LogDirs, alterations: Sequence[Alteration]) -> None:
    """Until all is written, a stop counts as unclean, as the log is being changed."""
    first = dirs.dirs[0]
    unclean = [each.path for each in dirs.dirs if not each.clean]
    dirs.forget_clean_shutdown(first)
    await metadata.lead_stopped()
    try:
        for alteration in alterations:
            for _, error in await metadata.controller.submit(lambda image, one=alteration: decide(image, [one])):  # type: ignore[misc]
                if error is not None:
                    raise UserToolError(error.message)
    finally:
        await metadata.controller.close()
        await metadata.log.close()
        if first.clean:
            dirs.mark_clean(unclean, first.closed_in)


def _users(metadata: StandaloneMetadata) -> Users:
    """Before the first start, too: those with which the log will begin."""
    found: Users = {}
    for (user, mechanism), record in metadata.cache.image.scram.items():
        found.setdefault(user, {})[int(mechanism)] = record.iterations
    return found
