"""`odradek format`: its options, which are those of `kafka-storage format`, and what they mean for the folders."""

from __future__ import annotations

import binascii
import hashlib
import random
import time
from base64 import b64decode
from collections.abc import Sequence
from random import Random
from typing import Any

import click

from broker.admin import wrong_configuration_ends
from broker.config.broker_config import BrokerConfig, split_list
from broker.config.sources import Loaded, config_options, load_options
from controller.quorum.features import SCRAM_SINCE, FeatureError, chosen_levels, version_name
from controller.quorum.format import FormatError, Formatting, bootstrap_records, format_folders
from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, SALT_BYTES, SCRAM_MECHANISMS, ScramUpsertion, credential
from metadata.settings import METADATA_VERSION
from protocol.metadata.brokers import VoterEndpoint
from storage.files import OsFileSystem
from storage.folders.meta_properties import MetaPropertiesError


@click.command("format")
@click.option("-t", "--cluster-id", help="Cluster id; without it, that of odradek.cluster.id or CLUSTER_ID.")
@config_options
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip folders that are formatted already.")
@click.option("-s", "--standalone", is_flag=True, help="Make this node the only voter of a dynamic quorum.")
@click.option(
    "-r", "--release-version", metavar="RELEASE", help="Begin with the features of this release, such as 4.1."
)
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="Begin with this level.")
@click.option(
    "-S",
    "--add-scram",
    "scram",
    multiple=True,
    metavar="CREDENTIAL",
    help="Begin with this user, for instance SCRAM-SHA-256=[name=alice,password=alice-secret].",
)
def main(
    cluster_id: str | None,
    config_files: tuple[str, ...],
    settings: tuple[str, ...],
    ignore_formatted: bool,
    standalone: bool,
    release_version: str | None,
    features: tuple[str, ...],
    scram: tuple[str, ...],
) -> None:
    """Format the folders of log.dirs for this node.

    The options are those of `kafka-storage format`, and so is what is written. A node formats new folders by itself;
    this is to choose the cluster id, older feature levels or first users, or to format for Apache Kafka.
    """
    with wrong_configuration_ends():
        loaded = load_options(config_files, settings, opens_listeners=False)
    try:
        levels = chosen_levels(release_version, _levels(features), dynamic=standalone)
        wanted = _wanted(loaded, cluster_id, levels, scram, standalone=standalone, ignore_formatted=ignore_formatted)
        formatted = format_folders(OsFileSystem(), lambda: time.time_ns() // 1_000_000, random.SystemRandom(), wanted)
    except (FormatError, FeatureError, MetaPropertiesError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for folder in formatted:
        kind = "metadata directory" if folder == wanted.metadata_folder else "data directory"
        click.echo(f"Formatting {kind} {folder} with metadata.version {version_name(levels[METADATA_VERSION])}.")
    if not formatted:
        click.echo("All of the log directories are already formatted.")


def _levels(features: Sequence[str]) -> dict[str, int]:
    levels = {}
    for feature in features:
        name, equals, level = feature.partition("=")
        if not equals or not level.strip().isdecimal():
            raise FeatureError(f"Can't parse feature=level string {feature}. Expected, for instance, group.version=1.")
        levels[name.strip()] = int(level)
    return levels


def _wanted(
    loaded: Loaded,
    cluster_id: str | None,
    levels: dict[str, int],
    scram: Sequence[str],
    *,
    standalone: bool,
    ignore_formatted: bool,
) -> Formatting:
    config = loaded.config
    cluster_id = cluster_id or config.optional_string("odradek.cluster.id")
    if not cluster_id:
        raise FormatError("You must specify the cluster id: --cluster-id ID.")
    if not cluster_id.isascii():
        raise FormatError(f"The cluster id is {cluster_id!r}; expected ASCII characters.")
    if scram and levels[METADATA_VERSION] < SCRAM_SINCE:
        raise FormatError(f"SCRAM is only supported in metadata.version {version_name(SCRAM_SINCE)} or later.")
    users = [scram_record(argument, random.SystemRandom()) for argument in scram]
    return Formatting(
        cluster_id,
        config.node_id,
        config.log_dirs,
        _metadata_folder(config, standalone=standalone),
        bootstrap_records(levels, users),
        voter=_endpoint(loaded) if standalone else None,
        ignore_formatted=ignore_formatted,
    )


def _metadata_folder(config: BrokerConfig, *, standalone: bool) -> str | None:
    """The folder of the metadata log; None for a broker whose controllers are other nodes."""
    voters = split_list(config.given.get("controller.quorum.voters", ""))
    if standalone and voters:
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --standalone. If you want to use "
            "dynamic quorum, please remove controller.quorum.voters."
        )
    is_voter = any(voter.startswith(f"{config.node_id}@") for voter in voters)
    is_controller = standalone or is_voter or "controller" in config.list_("process.roles")
    if not is_controller and (voters or config.given.get("controller.quorum.bootstrap.servers", "").strip()):
        return None
    folder = config.given.get("metadata.log.dir", "").strip() or config.log_dirs[0]
    if folder not in config.log_dirs:
        raise FormatError(
            f"The metadata log directory, {folder}, is not one of log.dirs: {', '.join(config.log_dirs)}."
        )
    return folder


def _endpoint(loaded: Loaded) -> VoterEndpoint:
    """Find where the controller is reached: its advertised listener, or else the one that it opens."""
    names = split_list(loaded.config.optional_string("controller.listener.names") or "")
    of_controllers = (*loaded.listeners.controllers, *loaded.listeners.left_out)
    listeners = {listener.name: listener for listener in of_controllers}
    first = names[0].upper() if names else None
    if first not in listeners:
        raise FormatError("--standalone needs a listener that controller.listener.names has.")
    host, port = listeners[first].host, listeners[first].port
    for entry in split_list(loaded.config.optional_string("advertised.listeners") or ""):
        name, _, address = entry.partition("://")
        if name.upper() == first:
            host, _, text = address.rpartition(":")
            port = int(text)
    return VoterEndpoint(name=first, host=host.strip("[]") or "localhost", port=port)


# -- `--add-scram`: users with a SCRAM credential from the start (Kafka's `ScramParser`, KIP-900)

_PARTS = ("name", "salt", "iterations", "password", "saltedpassword")


def scram_record(argument: str, random: Random) -> Any:
    """The record of an argument such as `SCRAM-SHA-256=[name=alice,password=secret]`. Raises FormatError."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise FormatError("The argument of add-scram is no text in UTF-8") from None
    mechanism, parts = _parse(argument.strip())
    number = SCRAM_MECHANISMS[mechanism]
    name, iterations = parts.get("name"), _iterations(parts.get("iterations"), mechanism)
    if not name:
        raise FormatError("You must supply 'name' to add-scram")
    salt = _decoded("salt", parts["salt"]) if "salt" in parts else random.randbytes(SALT_BYTES)
    if "password" in parts:
        salted = hashlib.pbkdf2_hmac(number.digest, parts["password"].encode(), salt, iterations)
    elif "saltedpassword" not in parts:
        raise FormatError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in parts:
        raise FormatError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedpassword", parts["saltedpassword"])
    return credential(ScramUpsertion(name, number, iterations, salt, salted))


def _parse(argument: str) -> tuple[str, dict[str, str]]:
    """The mechanism, and the values by name."""
    mechanism, equals, rest = argument.partition("=")
    if not equals:
        raise FormatError(f"Failed to find equals sign in SCRAM argument '{argument}'")
    if mechanism not in SCRAM_MECHANISMS:
        raise FormatError(f"The add-scram mechanism {mechanism} is not supported.")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise FormatError("Expected the configuration of add-scram in brackets: MECHANISM=[name=...,password=...]")
    parts = {}
    for part in rest[1:-1].split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"No equals sign found in SCRAM component: {part}")
        parts[name] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
    unknown = [name for name in parts if name not in _PARTS]
    if unknown:
        raise FormatError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return mechanism, parts


def _iterations(text: str | None, mechanism: str) -> int:
    try:
        iterations = MIN_ITERATIONS if text is None else int(text)
    except ValueError as error:
        raise FormatError(f"Failed to parse iterations count: {text}") from error
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be from {MIN_ITERATIONS} to {MAX_ITERATIONS} for {mechanism}")
    return iterations


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise FormatError(f"Failed to decode given {name}: {text}") from error
