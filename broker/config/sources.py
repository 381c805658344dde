"""Gathers the configuration from a server.properties file, the environment and `--set`, in ascending precedence.

A profile comes before all. Commands that read a configuration have the options `--config FILE` and `--set KEY=VALUE`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.config.broker_config import PROVIDERS, BrokerConfig, ConfigurationError, split_list
from broker.config.controllers import broken_listener_rules, seems_another_node
from broker.config.cross_checks import broken_rules
from broker.config.defs import BROKER_CONFIGS, KNOWN_CONFIGS, base_name, is_not_needed
from broker.config.defs.not_needed import NOT_ENFORCED
from broker.config.defs.odradek import PROFILES
from broker.config.environment import Environment, parse_properties, read_environment
from broker.config.listener_settings import has_effect, implied_settings, listener_of
from broker.config.listeners import Listeners, parse_listeners
from broker.config.security_checks import readable_secrets, security_problems
from broker.config.structured import broken_http_rules
from broker.nearest import did_you_mean

_VARIABLE = r"\$\{[^}]*:[^}]*\}"
_LISTENERS = frozenset({"listeners", "advertised.listeners"})

_Command = TypeVar("_Command", bound=Callable[..., Any])
_config = click.option(
    "-c",
    "--config",
    "config_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Read this server.properties file; may be repeated, a later one overrides an earlier one.",
)
_set = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set one configuration; may be repeated."
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration that a broker starts with. `warnings` has one line for each setting without effect."""

    config: BrokerConfig
    listeners: Listeners
    warnings: tuple[str, ...]


def load(
    files: Sequence[tuple[str, str]] = (),
    environ: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
    *,
    fallback: tuple[str, str] | None = None,
    opens_listeners: bool = True,
) -> Loaded:
    """The configuration from its three sources; a later one overrides an earlier one, and a profile comes before all.

    Args:
        files: name and text of each server.properties file; a later one overrides an earlier one.
        environ: environment variables; only `KAFKA_*`, `ODRADEK_*` and `CLUSTER_ID` matter.
        settings: `key=value` texts of `--set`.
        fallback: name and text of a file that counts as a whole, and only if nothing else sets any of its names.
        opens_listeners: whether keys and users of listeners must be there; a command that formats folders needs none.

    Raises:
        ConfigurationError: with every wrong value at once.
    """
    static: dict[str, str] = {}
    origins: dict[str, str] = {}
    for file_name, text in files:
        from_file = _parsed(file_name, text)
        static |= from_file
        origins |= dict.fromkeys(from_file, file_name)
    environment = _environment(environ or {})
    for name, (variable, value) in environment.settings.items():
        static[name], origins[name] = value, variable
    for name, value in _settings(settings):
        static[name], origins[name] = value, "--set"
    if fallback is not None:
        in_its_place = _parsed(*fallback)
        if static.keys().isdisjoint(in_its_place):
            static |= in_its_place
            origins |= dict.fromkeys(in_its_place, fallback[0])
    resolve = None
    if PROVIDERS in static:
        from broker.config.providers import read_providers, resolved, resolved_at_run_time

        providers = read_providers(static, environ or {})
        resolve = partial(resolved_at_run_time, providers=providers)
        static = resolved(static, providers)
    _listen_where_advertised(static, origins, environment)
    _fill_from_profile(static, origins)
    warnings = [*_advertise_localhost(static, origins)]
    if opens_listeners and environment.has_image_variables:
        from broker.config.image_variables import ImageSettings

        warnings += ImageSettings(static, origins, environment).complete()
    for name, (value, setting) in implied_settings(static).items():
        static[name], origins[name] = value, setting
    config = replace(BrokerConfig.of(static, origins), resolve=resolve)
    listeners = _checked_listeners(config, opens_listeners)
    return Loaded(config, listeners, (*_warnings(config, listeners, environment), *warnings))


def _parsed(file_name: str, text: str) -> dict[str, str]:
    try:
        return parse_properties(text)
    except ValueError as error:
        raise ConfigurationError([f"{file_name}: {error}"]) from error


def _environment(environ: Mapping[str, str]) -> Environment:
    try:
        return read_environment(environ)
    except ValueError as error:
        raise ConfigurationError([str(error)]) from error


def _checked_listeners(config: BrokerConfig, opens_listeners: bool) -> Listeners:
    """Raises ConfigurationError with every wrong combination of values and every fault of the listeners at once."""
    problems = [rule.line for rule in broken_rules(config)] + _typing_errors(config)
    try:
        listeners = parse_listeners(config)
        problems += _http_on_a_listeners_port(config, listeners)
        problems += broken_listener_rules(config, listeners)
        problems += broken_http_rules(config, listeners)
        if opens_listeners:
            problems += security_problems(config, (*listeners.bound, *listeners.controllers))
    except ConfigurationError as error:
        problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    return listeners


def _typing_errors(config: BrokerConfig) -> list[str]:
    """Names that nobody knows, in a test's settings: a test with a typing error would test something else.

    Elsewhere they have no effect and a warning, as in Kafka.
    """
    if config.string("odradek.profile") != "test":
        return []
    return [
        f"{name}: expected a name of Kafka's server.properties, or one of Odradek's own{_meant(name)}"
        for name in config.static
        if config.origins.get(name) == "--set" and _is_unknown(name)
    ]


def _is_unknown(name: str) -> bool:
    """Whether it has no meaning, neither here nor in Kafka."""
    if name in BROKER_CONFIGS or is_not_needed(name):
        return False
    return listener_of(name) is None or not has_effect(name)


def _http_on_a_listeners_port(config: BrokerConfig, listeners: Listeners) -> list[str]:
    port = config.integer("odradek.http.port")
    return [
        f"odradek.http.port = {port}: expected another port than that of the listener {listener}"
        for listener in listeners.bound
        if listener.port == port > 0 and "odradek.http.port" in config.given
    ]


def _settings(settings: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError([f"--set {text!r}: expected key=value"])
        yield name.strip(), value


def _listen_where_advertised(static: dict[str, str], origins: dict[str, str], environment: Environment) -> None:
    """Listen on every interface at the advertised ports if only these are set, as Kafka's images do; see below.

    What a file says of `listeners` does not count if the environment advertises: it is a default beside that.
    """
    advertised = static.get("advertised.listeners", "")
    only_advertised = {"advertised.listeners"} == environment.settings.keys() & _LISTENERS
    if not advertised or ("listeners" in static and not (only_advertised and origins["listeners"] != "--set")):
        return
    entries = [entry.strip().partition("://") for entry in advertised.split(",")]
    hosts = {rest.rpartition(":")[0].strip("[]") for _, _, rest in entries}
    # A container is reached from outside of it, whatever the name; elsewhere nobody but this machine is told of it.
    is_local = not only_advertised and all(host in ("localhost", "::1") or host.startswith("127.") for host in hosts)
    address = "127.0.0.1" if is_local else "0.0.0.0"  # noqa: S104 - as Kafka does
    static["listeners"] = ",".join(f"{name}://{address}:{rest.rpartition(':')[2]}" for name, _, rest in entries)
    origins["listeners"] = origins["advertised.listeners"]


def _advertise_localhost(static: dict[str, str], origins: dict[str, str]) -> Iterator[str]:
    """Advertise localhost for 0.0.0.0 on a developer's machine (profile `dev`), with a warning.

    Kafka refuses to start, and so does every other profile, and a broker of a cluster, which others have to reach.
    """
    listeners = static.get("listeners", "")
    if "://0.0.0.0:" not in listeners or "advertised.listeners" in static:
        return
    config = BrokerConfig.of(static, origins)
    if config.string("odradek.profile") != "dev" or config.is_in_cluster or not config.is_broker:
        return
    controllers = [name.upper() for name in split_list(config.optional_string("controller.listener.names") or "")]
    of_clients = [entry for entry in split_list(listeners) if entry.partition("://")[0].upper() not in controllers]
    advertised = ",".join(of_clients).replace("://0.0.0.0:", "://localhost:")
    if advertised and advertised != ",".join(of_clients):
        static["advertised.listeners"], origins["advertised.listeners"] = advertised, origins["listeners"]
        yield f"advertised.listeners is not set: clients are told {advertised}, which those elsewhere do not reach"


def _fill_from_profile(static: dict[str, str], origins: dict[str, str]) -> None:
    """Add what the profile has and nobody set, under any of its names. A wrong profile is found with the others."""
    profile = static.get("odradek.profile", "").strip()
    for name, value in PROFILES.get(profile, {}).items():
        if name not in static:
            static[name], origins[name] = value, f"the profile {profile}"


def _warnings(config: BrokerConfig, listeners: Listeners, environment: Environment) -> Iterable[str]:
    for variable in environment.image:
        yield f"{variable} steers Kafka's image or its JVM and has no effect here"
    if environment.service_links:
        shown = ", ".join(environment.service_links)
        yield f"ignored, since Kubernetes sets them for services (enableServiceLinks: false leaves them out): {shown}"
    names = {listener.name.lower() for listener in (*listeners.bound, *listeners.controllers, *listeners.left_out)}
    for name in config.static:
        origin = config.origins.get(name)
        if origin is not None and re.search(_VARIABLE, config.static[name]):
            yield f"{name} (from {origin}) has a variable of no provider of {PROVIDERS}: the text counts as it stands"
        if origin is None or name in BROKER_CONFIGS or _is_of_provider(name, config) or _is_of_tier(name, config):
            continue
        listener = listener_of(name)
        if listener is not None and has_effect(name):
            if listener not in names:
                yield f"{name} (from {origin}) has no effect: no listener is named {listener}"
        elif base_name(name) in NOT_ENFORCED:
            yield f"{name} (from {origin}) is not enforced here{NOT_ENFORCED[base_name(name)]}"
        elif is_not_needed(name):
            yield f"{name} (from {origin}) is a Kafka configuration that is not needed here"
        else:
            yield f"{name} (from {origin}) is not a known configuration{_meant(name)}"
    if config.given.get("super.users") and not config.string("authorizer.class.name"):
        yield "super.users has no effect without authorizer.class.name: all clients may do everything"
    yield from readable_secrets(config)
    if doubt := seems_another_node(config, listeners):
        yield doubt
    if listeners.left_out:
        shown = ", ".join(map(str, listeners.left_out))
        yield f"there is no controller here: {shown} is not opened"


def _is_of_provider(name: str, config: BrokerConfig) -> bool:
    """Whether a setting is about one of the providers of values that are kept elsewhere."""
    return name.startswith(tuple(f"{PROVIDERS}.{provider}." for provider in config.list_(PROVIDERS)))


def _is_of_tier(name: str, config: BrokerConfig) -> bool:
    """Whether a setting is about remote storage, or about what is known of it, and that is switched on."""
    prefixes = (f"remote.log.{part}.manager.impl.prefix" for part in ("storage", "metadata"))
    is_on = config.boolean("remote.log.storage.system.enable")
    return is_on and name.startswith(tuple(map(config.string, prefixes)))


def _meant(name: str) -> str:
    return did_you_mean(name, KNOWN_CONFIGS, closeness=0.75)


def config_options(command: _Command) -> _Command:
    """The command with both options; it gets their values as `config_files` and `settings`."""
    return _config(_set(command))


def load_options(
    config_files: Sequence[str],
    settings: Sequence[str],
    *,
    fallback: str | None = None,
    opens_listeners: bool = True,
) -> Loaded:
    """The configuration that the options and the environment make; see `load`. Raises ConfigurationError."""
    files = [_read(name) for name in config_files]
    in_place_of_all = None if fallback is None else _read(fallback)
    return load(files, os.environ, settings, fallback=in_place_of_all, opens_listeners=opens_listeners)


def _read(name: str) -> tuple[str, str]:
    return name, Path(name).read_text("iso-8859-1")  # as Java reads them
