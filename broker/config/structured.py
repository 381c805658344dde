"""Settings whose text has a form of its own: lists of topics, of ACLs and of principals, addresses, networks, windows.

odradek.create.topics   name:partitions:replicas:cleanup.policy, as in KAFKA_CREATE_TOPICS; commas or lines between
odradek.create.acls     User:app READ,WRITE TOPIC orders-*; semicolons or lines between
odradek.control         HOST:PORT
super.users             User:admin;User:CN=broker,O=Example
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, split_list
from broker.config.controllers import LISTENER_NAMES, inter_broker_listener
from broker.config.definition import parse_integer
from broker.config.listener_settings import ListenerSettings
from broker.config.listeners import Listener, Listeners
from metadata.acls import CLUSTER_NAME, WILDCARD, AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord
from timing.rate import Windows

_PERMISSIONS = {permission.name: permission for permission in (PermissionType.ALLOW, PermissionType.DENY)}
_OPERATIONS = {
    operation.name: operation for operation in AclOperation if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_TYPES = {kind.name: kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)}
_FORM = "PRINCIPAL [ALLOW or DENY] OPERATION,.. TYPE NAME [from HOST], such as 'User:app READ,WRITE TOPIC orders-*'"
PROXIES = "odradek.http.trusted.proxies"
LOGIN_LISTENERS = "odradek.console.login.listeners"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class StartTopic:
    """A topic to make if it does not exist; -1 and None are the broker's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    cleanup_policy: str | None = None


def parse_start_topics(text: str) -> list[StartTopic]:
    """The topics, which commas or line ends separate. Raises ValueError with the first that is wrong."""
    return [_topic_of(entry) for entry in _entries(text)]


def _entries(text: str) -> Iterator[str]:
    return (entry.strip() for entry in re.split(r"[,\n]", text) if entry.strip())


def _topic_of(entry: str) -> StartTopic:
    name, *rest = (part.strip() for part in entry.split(":"))
    counts = [parse_integer(part, 32) for part in rest[:2]]
    wrong = not name or len(rest) > 3 or any(count is None or count < 1 for count in counts)
    if wrong:
        raise ValueError(f"{entry!r} is not name:partitions:replicas:cleanup.policy, of which the last may be left out")
    partitions, replication_factor = [*(count or -1 for count in counts), -1, -1][:2]
    return StartTopic(name, partitions, replication_factor, rest[2] if len(rest) > 2 else None)


def parse_start_acls(text: str) -> list[AccessControlEntryRecord]:
    """The ACLs, without ids. Raises ValueError with the first that is wrong."""
    return [acl for entry in re.split(r"[;\n]", text) if entry.strip() for acl in _acls_of(entry.strip())]


def _acls_of(entry: str) -> Iterator[AccessControlEntryRecord]:
    words = entry.split()
    host = WILDCARD
    if len(words) > 2 and words[-2].lower() == "from":
        host = words[-1]
        words = words[:-2]
    permission = _PERMISSIONS.get(words[1].upper()) if len(words) > 1 else None
    if permission is not None:
        del words[1]
    if len(words) == 3 and words[2].upper() == ResourceType.CLUSTER.name:
        words.append(CLUSTER_NAME)
    if len(words) != 4:
        raise ValueError(f"{entry!r}: expected {_FORM}")
    principal, operations, kind, name = words
    resource_type = _TYPES.get(kind.upper().replace("-", "_"))
    if resource_type is None:
        raise ValueError(f"{entry!r}: {kind} is no type of resource; expected one of {', '.join(_TYPES)}")
    is_prefixed = name.endswith(WILDCARD) and name != WILDCARD
    for operation in operations.split(","):
        if operation.upper() not in _OPERATIONS:
            raise ValueError(f"{entry!r}: {operation} is no operation; expected one of {', '.join(_OPERATIONS)}")
        yield AccessControlEntryRecord(
            id=None,
            resource_type=resource_type,
            resource_name=name.removesuffix(WILDCARD) if is_prefixed else name,
            pattern_type=PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
            principal=principal if ":" in principal else f"User:{principal}",
            host=host,
            operation=_OPERATIONS[operation.upper()],
            permission_type=permission or PermissionType.ALLOW,
        )


def control_address(config: BrokerConfig) -> tuple[str, int] | None:
    """Host and port; None if the interface is off. Raises ValueError with a sentence that says what is wrong."""
    text = config.string("odradek.control").strip()
    if not text:
        return None
    host, colon, digits = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not digits.isdecimal() or int(digits) > 65535:
        raise ValueError(f"odradek.control = {text!r}: expected HOST:PORT, for instance 127.0.0.1:9405")
    if not _is_loopback(host) and not config.optional_string("odradek.control.token"):
        raise ValueError(
            f"odradek.control = {text!r}: expected a loopback address, or odradek.control.token to be set, "
            "since whoever reaches the port may do everything"
        )
    return host, int(digits)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def super_users(config: BrokerConfig) -> list[str]:
    """The principals that may do everything, such as `User:admin`; they are separated by semicolons."""
    return [each for part in config.string("super.users").split(";") if (each := part.strip())]


def windows_of(config: BrokerConfig, prefix: str = "") -> Windows:
    """The windows that `<prefix>quota.window.num` and `<prefix>quota.window.size.seconds` give."""
    num = config.integer(f"{prefix}quota.window.num")
    return Windows(num, config.integer(f"{prefix}quota.window.size.seconds") * 1000)


def trusted_proxies(config: BrokerConfig) -> list[Network]:
    """Raises ValueError for what is neither an address nor a network."""
    return [ipaddress.ip_network(text, strict=False) for text in config.list_(PROXIES)]


def why_no_logins(config: BrokerConfig, listener: Listener, *, is_only_one: bool) -> str | None:
    """Why users of this listener never log in at the console, by the settings; None if they may.

    A password alone is not enough where clients have to show a certificate too, and nodes are no users. What brokers
    use is for clients as well if it is the only one.
    """
    if listener.name in {name.upper() for name in split_list(config.optional_string(LISTENER_NAMES) or "")}:
        return "it is for controllers"
    if not is_only_one and listener.name == inter_broker_listener(config):
        return "it is for brokers"
    if not listener.uses_sasl:
        return "its clients have no passwords"
    if listener.uses_tls and ListenerSettings(config, listener.name).text("ssl.client.auth") == "required":
        return "its clients have to show certificates"
    return None


def broken_http_rules(config: BrokerConfig, listeners: Listeners) -> Iterator[str]:
    """List what is wrong with these settings, a line each."""
    for text in config.list_(PROXIES):
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            yield f"{PROXIES} = {text!r}: expected an address or a network such as 10.0.0.0/8"
    known = {listener.name: listener for listener in (*listeners.bound, *listeners.controllers, *listeners.left_out)}
    for name in config.list_(LOGIN_LISTENERS):
        found = known.get(name.upper())
        why = "there is no such listener"
        if found is not None:
            why = why_no_logins(config, found, is_only_one=len(listeners.bound) == 1) or ""
        if why:
            yield f"{LOGIN_LISTENERS} = {name!r}: expected a listener whose users have passwords; {why}"
