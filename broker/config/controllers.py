"""Where the controllers of a node's cluster are, and what Kafka demands of the configuration of such a node.

A node that comes to others over listeners with TLS or SASL needs settings for that, too.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, ConfigurationError, split_list
from broker.config.listener_settings import JaasError, ListenerSettings, parse_jaas
from broker.config.listeners import Listener, Listeners, protocol_map

INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms by which a node logs in at another node."""
_VOTERS = "controller.quorum.voters"
_BOOTSTRAP = "controller.quorum.bootstrap.servers"
_ADDRESS = r"\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]+)"
LISTENER_NAMES = "controller.listener.names"
PLAINTEXT = "PLAINTEXT"
_FOR_A_CLUSTER = (
    "there is no quorum of several here. For a cluster of several nodes set process.roles=broker on all of them and "
    "run the controllers of Apache Kafka; or let this node be the only controller, and set process.roles=broker on the "
    "others"
)


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """Where a controller listens; `node_id` is None where only its address is configured."""

    host: str
    port: int
    node_id: int | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def controllers(config: BrokerConfig) -> tuple[ControllerAddress, ...]:
    """The configured controllers: the bootstrap servers, then the voters. Raises ConfigurationError."""
    found = [_address(_BOOTSTRAP, entry, entry) for entry in config.list_(_BOOTSTRAP)]
    for entry in config.list_(_VOTERS):
        node_id, at, address = entry.partition("@")
        if not at or not node_id.strip().isdecimal():
            raise _wrong(_VOTERS, entry, "id@host:port")
        found.append(_address(_VOTERS, entry, address, int(node_id)))
    return tuple(found)


def _address(key: str, entry: str, address: str, node_id: int | None = None) -> ControllerAddress:
    match = re.fullmatch(_ADDRESS, address.strip())
    if match is None or not 0 < int(match[2]) <= 65535:
        raise _wrong(key, entry, "host:port" if node_id is None else "id@host:port")
    return ControllerAddress(match[1], int(match[2]), node_id)


def _wrong(key: str, entry: str, form: str) -> ConfigurationError:
    return ConfigurationError([f"{key}: expected {form}, which {entry!r} is not"])


def broken_cluster_rules(config: BrokerConfig) -> Iterator[str]:
    """List what is wrong with the configuration of a node in a cluster, a line each (`KafkaConfig.validateValues`)."""
    try:
        known = controllers(config)
    except ConfigurationError as error:
        yield from error.problems
    else:
        yield from _controller_rules(config, known)
    if config.is_broker and not config.is_in_cluster:
        return
    if "node.id" not in config.given:
        yield "node.id is not set: expected a number of its own for each node of a cluster"
    yield from _listener_rules(config)
    if not config.is_broker:
        return
    heartbeat, session = (config.integer(f"broker.{key}.ms") for key in ("heartbeat.interval", "session.timeout"))
    if 2 * heartbeat > session:
        yield (
            f"broker.heartbeat.interval.ms = {heartbeat}: expected at most half of broker.session.timeout.ms, {session}"
        )


def seems_another_node(config: BrokerConfig, listeners: Listeners) -> str | None:
    """The line about a bootstrap server that may not be this node, which has a controller of its own; else None."""
    if config.is_in_cluster:
        return None
    served = (*listeners.controllers, *listeners.left_out)
    hosts = {each.host.lower() for each in (*served, *listeners.bound)} | {host.lower() for host in listeners.hosts}
    hosts |= {"localhost", "127.0.0.1", "::1", socket.gethostname().lower()}
    ports = {listener.port for listener in (*served, *listeners.advertised_controllers)}
    for server in (each for each in controllers(config) if each.node_id is None):
        if server.host.lower() not in hosts or (ports and server.port not in ports):
            return (
                f"{_BOOTSTRAP} has {server}. If that is another node, this one is not in its cluster: {_FOR_A_CLUSTER}"
            )
    return None


def _controller_rules(config: BrokerConfig, known: Sequence[ControllerAddress]) -> Iterator[str]:
    if config.is_in_cluster:
        if config.node_id in {each.node_id for each in known}:
            yield (
                f"{_VOTERS}: expected other nodes than this, node {config.node_id}, since process.roles is broker alone"
            )
        return
    if {each.node_id for each in known} - {None, config.node_id}:
        yield f"{_VOTERS}: expected node {config.node_id}, this one, alone: {_FOR_A_CLUSTER}"
    if len(config.list_(_BOOTSTRAP)) > 1:
        yield f"{_BOOTSTRAP}: expected this node alone: {_FOR_A_CLUSTER}"


def _listener_rules(config: BrokerConfig) -> Iterator[str]:
    names = [name.upper() for name in split_list(config.optional_string(LISTENER_NAMES) or "")]
    if not names:
        yield f"{LISTENER_NAMES} is not set: expected the name of the controllers' listener, such as CONTROLLER"
        return
    try:
        protocols = protocol_map(config)
    except ConfigurationError:  # reported with the listeners
        return
    for name in names:
        if name not in protocols:
            yield f"{LISTENER_NAMES} = {name}: expected it to have a protocol in listener.security.protocol.map"
    if "inter.broker.listener.name" in config.given and "security.inter.broker.protocol" in config.given:
        yield "security.inter.broker.protocol: expected it not to be set together with inter.broker.listener.name"


def broken_listener_rules(config: BrokerConfig, listeners: Listeners) -> Iterator[str]:
    """List what is wrong with the listeners of a broker in a cluster, a line each."""
    if not config.is_in_cluster:
        return
    for listener in listeners.left_out:
        yield (
            f"listeners: expected none that {LISTENER_NAMES} has, since process.roles is broker alone; "
            f"{listener.name} is one"
        )
    name = inter_broker_listener(config)
    advertised = {listener.name: listener for listener in listeners.advertised}
    if name not in advertised:
        shown = ", ".join(advertised)
        yield f"inter.broker.listener.name = {name!r}: expected one of the advertised listeners, {shown}"
    yield from outgoing_problems(config, listener_of_brokers(config), INTER_BROKER_MECHANISM)
    yield from outgoing_problems(config, listener_of_controllers(config), CONTROLLER_MECHANISM)


def inter_broker_listener(config: BrokerConfig) -> str:
    """The name of the listener that brokers use among themselves."""
    name = config.optional_string("inter.broker.listener.name")
    return (config.string("security.inter.broker.protocol") if name is None else name).upper()


def listener_of_brokers(config: BrokerConfig) -> Listener:
    """Name and protocol of the listeners at which this node comes to other brokers."""
    name = inter_broker_listener(config)
    return Listener(name, protocol_map(config).get(name, PLAINTEXT), "", 0)


def listener_of_controllers(config: BrokerConfig) -> Listener:
    """Name and protocol of the listeners at which this node comes to controllers: the first of the names."""
    names = split_list(config.optional_string(LISTENER_NAMES) or "")
    name = names[0].upper() if names else ""
    return Listener(name, protocol_map(config).get(name, PLAINTEXT), "", 0)


def outgoing_problems(config: BrokerConfig, listener: Listener, setting: str) -> Iterator[str]:
    """List what is wrong for connections to listeners such as this; `setting` names the mechanism."""
    if not listener.uses_sasl:
        return
    mechanism = config.string(setting)
    if mechanism not in MECHANISMS:
        yield f"{setting} = {mechanism!r}: expected one of {', '.join(MECHANISMS)}, for the listener {listener.name}"
        return
    settings = ListenerSettings(config, listener.name)
    key = settings.key("sasl.jaas.config", mechanism)
    line = settings.text("sasl.jaas.config", mechanism)
    try:
        options = parse_jaas(line).options if line else {}
    except JaasError as error:
        yield f"{key} = [hidden]: {error}"
        return
    if not options.get("username") or not options.get("password"):
        yield f"{key}: expected a login module with username and password, by which this node logs in at other nodes"
