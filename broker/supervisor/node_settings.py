"""The settings of each of several nodes, made of those that one node would have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.control_address import control_address
from broker.config.listeners import Listener
from broker.config.sources import Loaded

MOST_BROKERS = 16
CONTROLLER = 1
"""The node that is the controller of all."""

_LISTENER = "CONTROLLER"
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


@dataclass(frozen=True, slots=True)
class Joined:
    """The cluster that a node joins: the address of its controller, and its id."""

    controller: str
    cluster_id: str


def settings_of(loaded: Loaded, count: int, node_id: int, joined: Joined | None = None) -> list[str]:
    """What node `node_id` of 1 to `count` is given besides, as `key=value` of `--set`.

    Without `joined` it is the controller. Ports follow each other: with `listeners=PLAINTEXT://:9092` node 3 has 9094.
    Raises ConfigurationError.
    """
    config = loaded.config
    _require_free(config, count)
    settings = {
        **_replication(config, count),
        "node.id": str(node_id),
        "log.dirs": ",".join(f"{folder}/node-{node_id}" for folder in config.log_dirs),
        "controller.listener.names": _LISTENER,
        **_addresses(loaded, count, node_id),
    }
    if joined is None:
        settings["process.roles"] = "broker,controller"
        settings["listeners"] += f",{_LISTENER}://127.0.0.1:0"
    else:
        settings["process.roles"] = "broker"
        settings["controller.quorum.bootstrap.servers"] = joined.controller
        settings["odradek.cluster.id"] = joined.cluster_id
    return [f"{name}={value}" for name, value in settings.items()]


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


def _replication(config: BrokerConfig, count: int) -> dict[str, str]:
    """Three replicas of everything, as far as there are nodes, where nobody says otherwise."""
    replicas = min(_REPLICAS, count)
    settings = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(replicas - 1, 1),
    }
    return {name: str(value) for name, value in settings.items() if name not in config.given}


def _addresses(loaded: Loaded, count: int, node_id: int) -> dict[str, str]:
    """Listeners, and the ports of metrics and of the control interface if they are given."""
    listeners, config = loaded.listeners, loaded.config
    step = (node_id - 1) * len(listeners.bound)
    _require_distinct_ports(listeners.bound, count)
    settings = {"listeners": _shifted(listeners.bound, step)}
    if config.optional_string("advertised.listeners") is not None:
        settings["advertised.listeners"] = _shifted(listeners.advertised, step)
    if _PROTOCOLS in config.given:
        settings[_PROTOCOLS] = f"{config.string(_PROTOCOLS)},{_LISTENER}:PLAINTEXT"
    http_port = config.integer("odradek.http.port")
    if "odradek.http.port" in config.given and http_port > 0:
        settings["odradek.http.port"] = str(_port(http_port + node_id - 1))
    control = control_address(config)
    if control is not None and control[1]:
        host = f"[{control[0]}]" if ":" in control[0] else control[0]
        settings["odradek.control"] = f"{host}:{_port(control[1] + node_id - 1)}"
    return settings


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
    return ",".join(str(replace(one, port=one.port and _port(one.port + step))) for one in listeners)


def _port(port: int) -> int:
    if port > _HIGHEST_PORT:
        raise ConfigurationError([f"port {port}: expected at most {_HIGHEST_PORT} for the ports of all nodes"])
    return port
