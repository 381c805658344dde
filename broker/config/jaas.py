"""JAAS: login modules with their options, in `sasl.jaas.config` (KIP-85) or in the sections of a file of Java's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
