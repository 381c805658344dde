"""JAAS lines: one login module with its options, as Kafka writes them in `sasl.jaas.config` (KIP-85)."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_TOKEN = r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))"""
_QUOTED, _OTHER_QUOTED, _SIGN, _WORD = 1, 2, 3, 4


class JaasError(ValueError):
    """Not one login module; the text says why, and has nothing of the options' values."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """`options` is not shown when printed: it has passwords."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """The module of `a.b.Module required name="value" ...;`. Raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (_SIGN, ";"):
        raise JaasError('expected a line such as: a.b.SomeLoginModule required name="value";')
    (kind, name), (_, flag), *rest = tokens[:-1]
    if kind != _WORD or flag.lower() not in _FLAGS:
        raise JaasError(f"expected the login module's class, and then one of {', '.join(_FLAGS)}")
    if (_SIGN, ";") in rest:
        raise JaasError("expected one login module")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise JaasError("expected each option as name=value, and a semicolon at the end")
    for (_, key), sign, (value_kind, value) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if sign != (_SIGN, "=") or value_kind == _SIGN:
            raise JaasError("expected each option as name=value")
        options[key] = value
    return LoginModule(name, options)


def _tokens(text: str) -> list[tuple[int, str]]:
    text = text.strip()
    tokens: list[tuple[int, str]] = []
    position = 0
    while position < len(text):
        match = re.compile(_TOKEN).match(text, position)
        if match is None:
            raise JaasError("expected every quotation mark to have its second one")
        kind = match.lastindex or _WORD
        value = match[kind]
        if kind in (_QUOTED, _OTHER_QUOTED):
            kind, value = _QUOTED, re.sub(r"\\(.)", r"\1", value)
        tokens.append((kind, value))
        position = match.end()
    return tokens
