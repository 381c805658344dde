"""Gathers the configuration from a server.properties file, the environment and `--set`, in ascending precedence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.cross_checks import broken_rules
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.environment import read_environment
from broker.config.kafka_names import is_not_needed
from broker.config.listeners import Listeners, parse_listeners
from broker.config.properties import parse_properties


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration that a broker starts with. `warnings` has one line for each setting without effect."""

    config: BrokerConfig
    listeners: Listeners
    warnings: tuple[str, ...]


def load(
    properties: str = "",
    environ: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
    *,
    file_name: str = "server.properties",
) -> Loaded:
    """The configuration from its three sources; a later one overrides an earlier one.

    Args:
        properties: text of a server.properties file, empty for none.
        environ: environment variables; only `KAFKA_*`, `ODRADEK_*` and `CLUSTER_ID` matter.
        settings: `key=value` texts of `--set`.
        file_name: the file's name, for messages.

    Raises:
        ConfigurationError: with every wrong value at once.
    """
    try:
        from_file = parse_properties(properties)
    except ValueError as error:
        raise ConfigurationError([f"{file_name}: {error}"]) from error
    from_environment, image_variables = read_environment(environ or {})
    static = dict(from_file)
    origins = dict.fromkeys(from_file, file_name)
    for name, (variable, value) in from_environment.items():
        static[name], origins[name] = value, variable
    for name, value in _settings(settings):
        static[name], origins[name] = value, "--set"
    _listen_where_advertised(static, origins, from_environment)
    config = BrokerConfig.of(static, origins)
    listeners = _checked_listeners(config)
    return Loaded(config, listeners, tuple(_warnings(config, listeners, image_variables)))


def _checked_listeners(config: BrokerConfig) -> Listeners:
    """Raises ConfigurationError with every wrong combination of values and every fault of the listeners at once."""
    problems = [rule.line for rule in broken_rules(config)]
    try:
        listeners = parse_listeners(config)
    except ConfigurationError as error:
        problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    return listeners


def _settings(settings: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError([f"--set {text!r}: expected key=value"])
        yield name.strip(), value


def _listen_where_advertised(
    static: dict[str, str], origins: dict[str, str], from_environment: Mapping[str, tuple[str, str]]
) -> None:
    """Listen on every interface at the advertised ports if only those are given, as Kafka's image does."""
    advertised = from_environment.get("advertised.listeners")
    if advertised is None or "listeners" in static:
        return
    entries = (entry.partition("://") for entry in static["advertised.listeners"].split(","))
    static["listeners"] = ",".join(f"{name}://0.0.0.0:{rest.rpartition(':')[2]}" for name, _, rest in entries)
    origins["listeners"] = advertised[0]


def _warnings(config: BrokerConfig, listeners: Listeners, image_variables: tuple[str, ...]) -> Iterable[str]:
    for variable in image_variables:
        yield f"{variable} steers Kafka's image or its JVM and has no effect here"
    for name in config.static:
        origin = config.origins.get(name)
        if origin is None or name in BROKER_CONFIGS:
            continue
        if is_not_needed(name):
            yield f"{name} (from {origin}) is a Kafka configuration that is not needed here"
        else:
            yield f"{name} (from {origin}) is not a known configuration{_nearest(name)}"
    if listeners.left_out:
        shown = ", ".join(map(str, listeners.left_out))
        yield f"there is no controller here: {shown} is not opened"


def _nearest(name: str) -> str:
    import difflib  # not needed when every name is known

    near = difflib.get_close_matches(name, (*BROKER_CONFIGS, *NOT_NEEDED), n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""
