"""The settings of one listener: its own, else the broker's (`AbstractConfig.valuesWithPrefixOverride`).

    listener.name.<listener>.<mechanism>.<name>   for one SASL mechanism of one listener
    listener.name.<listener>.<name>               for one listener
    <name>                                        for all

Listener and mechanism are written in lower case there, as in Kafka. Login modules and their options are in
`sasl.jaas.config` (KIP-85), or in the sections of a JAAS file of Java's.

Where Kafka's settings are not set, `odradek.tls.folder` has the certificates of a TLS listener
(`broker.security.tls.own_authority` makes them), and with `odradek.users` or `odradek.users.file` a SASL listener takes
these users by every mechanism that knows passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.config.broker_config import BrokerConfig
from broker.config.definition import InvalidValueError, Value
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.security import SASL, TLS

PREFIX = "listener.name."
USERS, USERS_FILE = "odradek.users", "odradek.users.file"
_OF_LISTENERS = frozenset((*TLS, *SASL, USERS, USERS_FILE))

FOLDER, CLIENTS = "odradek.tls.folder", "odradek.tls.clients"
AUTHORITY, BROKER = "ca.pem", "broker.pem"
_KEYSTORES = ("ssl.keystore.location", "ssl.keystore.key")
_TRUSTSTORES = ("ssl.truststore.location", "ssl.truststore.certificates")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Mapping[str, str] = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTH_MODULE,
}
"""The login module of each mechanism that is served."""
_FLAGS = ("required", "requisite", "sufficient", "optional")
_BLANK = r"(?s)(?:\s|//[^\n]*|/\*.*?\*/)*"
_TOKEN = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;{}])|([^\s=;{}"']+))"""
_QUOTED, _OTHER_QUOTED, _SIGN, _WORD = 1, 2, 3, 4
_Token = tuple[int, str]
_END: _Token = (_SIGN, ";")
_NOTHING: tuple[_Token, ...] = ((_SIGN, ""), (_SIGN, ""))
_QUOTABLE, _ESCAPED = r'["\\]', r"\\\g<0>"


class ListenerSettings:
    """Typed access to the settings of a listener. Each getter raises InvalidValueError for a wrong value."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self.listener = listener_name
        self._prefix = f"{PREFIX}{listener_name.lower()}."

    def key(self, name: str, mechanism: str | None = None) -> str:
        """The full name of the most particular setting, as messages tell users to write it."""
        return f"{self._prefix}{mechanism.lower()}.{name}" if mechanism else f"{self._prefix}{name}"

    def name_of(self, name: str, mechanism: str | None = None) -> str:
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


class JaasError(ValueError):
    """Not one login module; the text says why, and has nothing of the options' values."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """`options` is not shown when printed: it has passwords."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def line(self) -> str:
        """The module as `sasl.jaas.config` has it."""
        quoted = (f'{key}="{re.sub(_QUOTABLE, _ESCAPED, value)}"' for key, value in self.options.items())
        return " ".join((self.name, "required", *quoted)) + ";"


def parse_jaas(text: str) -> LoginModule:
    """The module of `a.b.Module required name="value" ...;`. Raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != _END:
        raise JaasError('expected a line such as: a.b.SomeLoginModule required name="value";')
    if _END in tokens[:-1]:
        raise JaasError("expected one login module")
    return _module(tokens[:-1])


def parse_jaas_file(text: str, properties: Mapping[str, str]) -> dict[str, tuple[LoginModule, ...]]:
    """The modules of each section `Name { a.b.Module required name="value"; };`. Raises JaasError.

    Args:
        properties: Java's system properties, which options may have as `${name}`.
    """
    sections: dict[str, tuple[LoginModule, ...]] = {}
    tokens = iter(_tokens(text))
    for kind, name in tokens:
        if kind == _SIGN or next(tokens, None) != (_SIGN, "{"):
            raise JaasError("expected sections such as: KafkaServer { a.b.SomeLoginModule required; };")
        if name in sections:
            raise JaasError(f"expected the section {name} once")
        sections[name] = tuple(_expanded(module, properties) for module in _modules(name, tokens))
        if next(tokens, None) != _END:
            raise JaasError(f"expected a semicolon after the section {name}")
    return sections


def _modules(section: str, tokens: Iterator[_Token]) -> Iterator[LoginModule]:
    """The modules up to the end of a section."""
    pending: list[_Token] = []
    for token in tokens:
        if token == (_SIGN, "}") and not pending:
            return
        if token != _END:
            pending.append(token)
            continue
        yield _module(pending)
        pending = []
    raise JaasError(f"expected each module of the section {section} to end with a semicolon, and then a closing brace")


def _module(tokens: Sequence[_Token]) -> LoginModule:
    (kind, name), (_, flag), *rest = *tokens, *_NOTHING[len(tokens) :]
    if kind != _WORD or flag.lower() not in _FLAGS:
        raise JaasError(f"expected the login module's class, and then one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise JaasError("expected each option as name=value, and a semicolon at the end")
    for (_, key), sign, (value_kind, value) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if sign != (_SIGN, "=") or value_kind == _SIGN:
            raise JaasError("expected each option as name=value")
        options[key] = value
    return LoginModule(name, options)


def _expanded(module: LoginModule, properties: Mapping[str, str]) -> LoginModule:
    def value_of(match: re.Match[str]) -> str:
        if match[1] not in properties:
            raise JaasError(f"expected an option -D{match[1]}=... of the JVM for {match[0]}")
        return properties[match[1]]

    options = {key: re.sub(r"\$\{([^{}]+)\}", value_of, value) for key, value in module.options.items()}
    return LoginModule(module.name, options)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = _after_blank(text, 0)
    while position < len(text):
        match = re.compile(_TOKEN).match(text, position)
        if match is None:
            raise JaasError("expected every quotation mark to have its second one")
        kind = match.lastindex or _WORD
        value = match[kind]
        if kind in (_QUOTED, _OTHER_QUOTED):
            kind, value = _QUOTED, re.sub(r"\\(.)", r"\1", value)
        tokens.append((kind, value))
        position = _after_blank(text, match.end())
    return tokens


def _after_blank(text: str, position: int) -> int:
    """Where the next token begins: comments are no tokens."""
    match = re.compile(_BLANK).match(text, position)
    return match.end() if match else position
