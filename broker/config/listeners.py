"""Where the broker listens, and where clients connect to it (Kafka's `SocketServerConfigs` and `KafkaConfig`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.config.broker_config import BrokerConfig, ConfigurationError, named_values, split_list
from broker.config.definition import parse_integer

_ENDPOINT = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"
_CONTROLLERS = "controller.listener.names"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. An empty `host` means every interface, port 0 any free one. `host` has no brackets."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def protocol_number(self) -> int:
        """The security protocol as a broker's registration has it."""
        return _PROTOCOLS.index(self.protocol)

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """The addresses to bind, and those to advertise (by name; see `resolve`).

    `controllers` are for the other nodes of a cluster whose controller this node is, with what is advertised of them in
    `advertised_controllers`. A node without that role leaves such listeners out.
    """

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    left_out: tuple[Listener, ...]
    controllers: tuple[Listener, ...] = ()
    advertised_controllers: tuple[Listener, ...] = ()

    @property
    def hosts(self) -> list[str]:
        """Where others reach this node."""
        return [listener.host for listener in (*self.advertised, *self.controllers, *self.advertised_controllers)]

    def with_ports(self, ports: Mapping[str, int]) -> str:
        """The value of `listeners` for the `ports`, by name, that were really opened."""
        every = (*self.bound, *self.controllers, *self.left_out)
        return ",".join(str(replace(listener, port=ports.get(listener.name, listener.port))) for listener in every)

    def resolve(self, ports: Mapping[str, int], host_name: str) -> dict[str, Listener]:
        """The address to advertise for each listener by name, once it is bound.

        Args:
            ports: the port on which each listener, by name, was really opened.
            host_name: this machine's name, advertised in place of an empty host.
        """
        return {listener.name: _reachable(listener, ports, host_name) for listener in self.advertised}

    def resolve_controllers(self, ports: Mapping[str, int], host_name: str) -> list[Listener]:
        """The address of each controller's listener, as in `resolve`."""
        named = {listener.name: listener for listener in self.advertised_controllers}
        return [_reachable(named.get(listener.name, listener), ports, host_name) for listener in self.controllers]


def _reachable(listener: Listener, ports: Mapping[str, int], host_name: str) -> Listener:
    host = host_name if listener.host in ("", "0.0.0.0", "::") else listener.host
    return replace(listener, host=host, port=listener.port or ports[listener.name])


def parse_listeners(config: BrokerConfig) -> Listeners:
    """Raises ConfigurationError, naming the key, for what Kafka refuses."""
    protocols = protocol_map(config)
    controllers = _names(config.optional_string("controller.listener.names"))
    every = _parse("listeners", config.string("listeners"), protocols)
    _require_distinct("listeners", config.string("listeners"), every)
    bound = tuple(listener for listener in every if listener.name not in controllers)
    text = config.optional_string("advertised.listeners")
    advertised_controllers: tuple[Listener, ...] = ()
    if text is None:
        advertised = bound
    else:
        named = _parse("advertised.listeners", text, protocols)
        _require_distinct_names("advertised.listeners", text, named)
        advertised = tuple(listener for listener in named if listener.name not in controllers)
        advertised_controllers = tuple(listener for listener in named if listener.name in controllers)
    if config.is_broker:
        _require_bound(bound, config)
        _require_advertisable(bound, advertised)
    of_controllers = tuple(listener for listener in every if listener.name in controllers)
    serves = "controller" in config.list_("process.roles")
    served = tuple(listener for listener in of_controllers if serves)
    left_out = tuple(listener for listener in of_controllers if listener not in served)
    if not config.is_broker:
        _require_of_controllers(served, (*bound, *advertised))
    return Listeners(bound, advertised, left_out, served, advertised_controllers)


def _names(text: str | None) -> frozenset[str]:
    return frozenset(name.upper() for name in split_list(text or ""))


def protocol_map(config: BrokerConfig) -> dict[str, str]:
    """The security protocol of each listener by name, both in capitals. Raises ConfigurationError."""
    key = "listener.security.protocol.map"
    text = config.string(key)
    line = f"{key} = {text!r}: expected NAME:PROTOCOL pairs, PROTOCOL one of {', '.join(_PROTOCOLS)}"
    try:
        pairs = named_values(text)
    except ValueError as error:
        raise ConfigurationError([line]) from error
    protocols: dict[str, str] = {}
    for name, protocol in pairs.items():
        if not name or protocol.upper() not in _PROTOCOLS:
            raise ConfigurationError([line])
        protocols[name.upper()] = protocol.upper()
    if key not in config.given:
        # KRaft gives its controller's listeners a protocol by default.
        for name in _names(config.optional_string("controller.listener.names")):
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


def _parse(key: str, text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    listeners: list[Listener] = []
    for entry in split_list(text):
        match = re.fullmatch(_ENDPOINT, entry)
        port = parse_integer(match[3], 32) if match else None
        if match is None or port is None or not 0 <= port <= 65535:
            raise ConfigurationError([f"{key} = {text!r}: expected NAME://host:port, which {entry!r} is not"])
        name = match[1].upper()
        if name not in protocols:
            raise ConfigurationError(
                [f"{key} = {text!r}: expected {name} to have a protocol in listener.security.protocol.map"]
            )
        listeners.append(Listener(name, protocols[name], match[2], port))
    return tuple(listeners)


def _require_distinct_names(key: str, text: str, listeners: tuple[Listener, ...]) -> None:
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ConfigurationError([f"{key} = {text!r}: expected a different name for each listener"])


def _require_distinct(key: str, text: str, listeners: tuple[Listener, ...]) -> None:
    """Check that names differ, and ports too, except for a pair of listeners with an IPv4 and an IPv6 address."""
    _require_distinct_names(key, text, listeners)
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for sharing in by_port.values():
        if len(sharing) > 1 and sorted(_ip_version(listener.host) for listener in sharing) != [4, 6]:
            raise ConfigurationError(
                [
                    f"{key} = {text!r}: expected a different port for each listener, "
                    "unless one has an IPv4 and the other an IPv6 address"
                ]
            )


def _ip_version(host: str) -> int:
    """The IP version, 4 or 6; 0 for a name or an empty host."""
    import ipaddress  # not needed for a single listener, the usual case

    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0


def _require_bound(bound: tuple[Listener, ...], config: BrokerConfig) -> None:
    text = config.string("listeners")
    if not bound:
        raise ConfigurationError([f"listeners = {text!r}: expected one that is not in controller.listener.names"])


def _require_of_controllers(served: tuple[Listener, ...], others: tuple[Listener, ...]) -> None:
    """Check that a controller alone has listeners for nodes, and no others."""
    problems = [
        f"listeners: expected only those of {_CONTROLLERS}, since process.roles is controller alone; {other} is another"
        for other in others
    ]
    if not served:
        problems.append(f"listeners: expected one of {_CONTROLLERS}, since process.roles is controller alone")
    if problems:
        raise ConfigurationError(dict.fromkeys(problems))


def _require_advertisable(bound: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> None:
    problems: list[str] = []
    shown = ",".join(map(str, advertised))
    names = [listener.name for listener in bound]
    if not advertised:
        problems.append(f"advertised.listeners = {shown!r}: expected at least one listener for clients")
    for listener in advertised:
        if listener.name not in names:
            problems.append(f"advertised.listeners = {shown!r}: expected names out of {', '.join(names)}")
        if listener.host == "0.0.0.0":
            example = replace(listener, host="localhost")
            problems.append(
                f"advertised.listeners is not set, and clients cannot be told to connect to {listener}: set it to the "
                f"address at which they reach this broker, for instance {example}"
                if advertised is bound
                else f"advertised.listeners = {shown!r}: expected an address that clients can reach, not 0.0.0.0"
            )
    if problems:
        raise ConfigurationError(dict.fromkeys(problems))
