"""What holds for one listener: its own settings, else the broker's (`AbstractConfig.valuesWithPrefixOverride`).

    listener.name.<listener>.<mechanism>.<name>   for one SASL mechanism of one listener
    listener.name.<listener>.<name>               for one listener
    <name>                                        for all

Listener and mechanism are written in lower case there, as in Kafka.

What `odradek.tls.folder`, `odradek.users` and `odradek.users.file` amount to where Kafka's settings are not set.

With the folder, a TLS listener has the certificates in it (`broker.security.tls.own_authority` makes them). With users,
a SASL listener takes its users by every mechanism that knows passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from broker.config.broker_config import BrokerConfig
from broker.config.definition import InvalidValueError, Value
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.security import SASL, TLS

PREFIX = "listener.name."
USERS, USERS_FILE = "odradek.users", "odradek.users.file"
_OF_LISTENERS = frozenset((*TLS, *SASL, USERS, USERS_FILE))


class ListenerSettings:
    """Typed access to the settings of a listener. Each getter raises InvalidValueError for a wrong value."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self.listener = listener_name
        self._prefix = f"{PREFIX}{listener_name.lower()}."

    def key(self, name: str, mechanism: str | None = None) -> str:
        """The full name of the most particular setting, as messages tell users to write it."""
        return f"{self._prefix}{mechanism.lower()}.{name}" if mechanism else f"{self._prefix}{name}"

    def found(self, name: str, mechanism: str | None = None) -> str:
        """The full name of the setting that counts; the most particular if there is none."""
        given = self._config.given
        keys = self._keys(name, mechanism)
        return next((key for key in keys if key in given), keys[0])

    def value(self, name: str, mechanism: str | None = None) -> Value:
        """The value in force."""
        given = self._config.given
        for key in self._keys(name, mechanism)[:-1]:
            if key in given:
                return BROKER_CONFIGS[name].parse(given[key])
        return self._config.values[name]

    def own(self, name: str, mechanism: str) -> str | None:
        """The text that is set for this mechanism of this listener, and nowhere else."""
        return self._config.given.get(self.key(name, mechanism))

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        """The value of a string, class or password; an empty one counts as unset."""
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, str)
        return value or None

    def integer(self, name: str, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism)
        assert isinstance(value, int)
        return value

    def boolean(self, name: str, mechanism: str | None = None) -> bool:
        value = self.value(name, mechanism)
        assert isinstance(value, bool)
        return value

    def list_(self, name: str, mechanism: str | None = None) -> tuple[str, ...]:
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, tuple)
        return tuple(part for part in value or () if part)

    def _keys(self, name: str, mechanism: str | None) -> tuple[str, ...]:
        """From the most particular to the most general."""
        keys = (self._prefix + name, name)
        return keys if mechanism is None else (self.key(name, mechanism), *keys)


def listener_of(name: str) -> str | None:
    """The listener that a setting names, as it is written there; None for a setting of the broker's."""
    return name.split(".")[2] if name.startswith(PREFIX) and name.count(".") > PREFIX.count(".") else None


def is_security(name: str) -> bool:
    """Whether a setting has to do with TLS or SASL, of all listeners or of one."""
    return name in _OF_LISTENERS or (name.startswith(PREFIX) and has_effect(name))


def has_effect(name: str) -> bool:
    """Whether a setting of one listener means something here."""
    rest = name.removeprefix(PREFIX).partition(".")[2]
    return rest in _OF_LISTENERS or rest.partition(".")[2] in _OF_LISTENERS


def wrong_values(config: BrokerConfig, listener_names: tuple[str, ...]) -> list[str]:
    """A line for each value that is set for one of the listeners and is wrong by itself."""
    prefixes = tuple(f"{PREFIX}{name.lower()}." for name in listener_names)
    problems: list[str] = []
    for key, text in config.given.items():
        prefix = next((prefix for prefix in prefixes if key.startswith(prefix)), None)
        if prefix is None:
            continue
        rest = key.removeprefix(prefix)
        definition = BROKER_CONFIGS.get(rest) or BROKER_CONFIGS.get(rest.partition(".")[2])
        if definition is None:
            continue
        try:
            definition.parse(text)
        except InvalidValueError:
            shown = "[hidden]" if definition.sensitive else repr(text)
            problems.append(f"{key} = {shown}: expected {definition.expected}")
    return problems


FOLDER, CLIENTS = "odradek.tls.folder", "odradek.tls.clients"
AUTHORITY, BROKER = "ca.pem", "broker.pem"

_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.key")
_TRUSTSTORES = ("ssl.truststore.location", "ssl.truststore.certificates")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


def client_file(name: str) -> str:
    """The file of a client's key and certificate. Raises ValueError for a name that cannot be a file's."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{CLIENTS} has {name!r}: expected letters, digits, and . _ @ - inside")
    return f"client-{name}.pem"


def implied_settings(given: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """By name: the value, and the setting that it follows from."""
    implied: dict[str, tuple[str, str]] = {}
    folder = given.get(FOLDER, "").strip()
    if folder and not any(given.get(name) for name in _KEYSTORES):
        implied["ssl.keystore.type"] = "PEM", FOLDER
        implied["ssl.keystore.location"] = os.path.join(folder, BROKER), FOLDER
    if folder and not any(given.get(name) for name in _TRUSTSTORES):
        implied["ssl.truststore.type"] = "PEM", FOLDER
        implied["ssl.truststore.location"] = os.path.join(folder, AUTHORITY), FOLDER
    for name in (USERS, USERS_FILE):
        if given.get(name, "").strip():
            implied["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", name
    return {name: found for name, found in implied.items() if name not in given}
