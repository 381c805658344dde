"""The settings of each of several nodes, made of those that one node would have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.listeners import Listener
from broker.config.sources import Loaded
from broker.config.structured import control_address

MOST_BROKERS = 16
CONTROLLER = 3000
"""The id of the controller, above that of any broker."""

_ACLS = "odradek.create.acls"
_LISTENER = "CONTROLLER"
_REGISTRY = "schema.registry.listeners"
_PROTOCOLS = "listener.security.protocol.map"
_REPLICAS = 3

_OWN = (
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "node.id",
    "process.roles",
)
_HIGHEST_PORT = 65535

Settings = dict[str, str]


def all_settings(loaded: Loaded, count: int) -> dict[int, Settings]:
    """Make the settings of the controller and of brokers 1 to `count`, by node id. Raises ConfigurationError.

    Ports follow each other: with `listeners=PLAINTEXT://:9092` broker 3 has 9094. The settings with which a broker
    joins are those of `joining`.
    """
    _require_free(loaded.config, count)
    _require_distinct_ports(loaded.listeners.bound, count)
    brokers = {number: _broker(loaded, number) for number in range(1, count + 1)}
    every = {CONTROLLER: _controller(loaded.config, count), **brokers}
    shared = _replication(loaded.config, count) | _of_listener(loaded.config)
    return {node_id: shared | own for node_id, own in every.items()}


def joining(controller: str, cluster_id: str) -> Settings:
    """The settings with which brokers join the cluster, once its controller has an address and an id."""
    return {"controller.quorum.bootstrap.servers": controller, "odradek.cluster.id": cluster_id}


def _controller(config: BrokerConfig, count: int) -> Settings:
    address = f"{_LISTENER}://127.0.0.1:0"
    advertised = {} if config.optional_string("advertised.listeners") is None else {"advertised.listeners": address}
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER),
        "log.dirs": f"{config.log_dirs[0]}/controller",
        "listeners": address,
        **advertised,
        **_more_ports(config, count),
    }


def _broker(loaded: Loaded, number: int) -> Settings:
    listeners, config = loaded.listeners, loaded.config
    step = (number - 1) * len(listeners.bound)
    settings = {
        "process.roles": "broker",
        "node.id": str(number),
        "log.dirs": ",".join(f"{folder}/node-{number}" for folder in config.log_dirs),
        "listeners": _shifted(listeners.bound, step),
        **_more_ports(config, number - 1),
    }
    if _ACLS in config.given:  # the controller has them
        settings[_ACLS] = ""
    if config.optional_string("advertised.listeners") is not None:
        settings["advertised.listeners"] = _shifted(listeners.advertised, step)
    return settings


def _require_free(config: BrokerConfig, count: int) -> None:
    problems = [
        f"{name}: expected not to be set with --brokers, which sets it for each node"
        for name in _OWN
        if name in config.given
    ]
    if not 1 <= count <= MOST_BROKERS:
        problems.append(f"--brokers {count}: expected 1 to {MOST_BROKERS}")
    if problems:
        raise ConfigurationError(problems)


def _replication(config: BrokerConfig, count: int) -> Settings:
    """Three replicas of everything, as far as there are nodes, where nobody says otherwise."""
    replicas = min(_REPLICAS, count)
    settings = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(replicas - 1, 1),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(replicas - 1, 1),
    }
    return {name: str(value) for name, value in settings.items() if name not in config.given}


def _of_listener(config: BrokerConfig) -> Settings:
    """The name of the controller's listener, and its protocol where others are given."""
    names = {"controller.listener.names": _LISTENER}
    return (
        names
        if _PROTOCOLS not in config.given
        else names | {_PROTOCOLS: f"{config.string(_PROTOCOLS)},{_LISTENER}:PLAINTEXT"}
    )


def _more_ports(config: BrokerConfig, step: int) -> Settings:
    """The ports besides the listeners', if they are given, `step` after those of the first node."""
    settings: Settings = {}
    http_port = config.integer("odradek.http.port")
    if "odradek.http.port" in config.given and http_port > 0:
        settings["odradek.http.port"] = str(_port(http_port + step))
    control = control_address(config)
    if control is not None and control[1]:
        host = f"[{control[0]}]" if ":" in control[0] else control[0]
        settings["odradek.control"] = f"{host}:{_port(control[1] + step)}"
    registry = config.list_(_REGISTRY)
    if registry:
        settings[_REGISTRY] = ",".join(_moved(url, step * len(registry)) for url in registry)
    return settings


def _moved(url: str, step: int) -> str:
    """The address with its port so much further, unless it is for a free one."""
    head, _, port = url.removesuffix("/").rpartition(":")
    return f"{head}:{_port(int(port) + step)}" if port.isdecimal() and int(port) else url


def _require_distinct_ports(listeners: Sequence[Listener], count: int) -> None:
    ports = [
        listener.port + number * len(listeners) for listener in listeners if listener.port for number in range(count)
    ]
    if len(set(ports)) < len(ports):
        raise ConfigurationError(
            [
                f"listeners: expected ports that follow each other, or port 0: with --brokers {count} each node takes "
                f"those {len(listeners)} after the ports of the node before"
            ]
        )


def _shifted(listeners: Iterable[Listener], step: int) -> str:
    return ",".join(
        str(replace(listener, port=listener.port and _port(listener.port + step))) for listener in listeners
    )


def _port(port: int) -> int:
    if port > _HIGHEST_PORT:
        raise ConfigurationError([f"port {port}: expected at most {_HIGHEST_PORT} for the ports of all nodes"])
    return port
