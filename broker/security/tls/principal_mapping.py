"""From a client's certificate to the name of its principal (KIP-371), by `ssl.principal.mapping.rules`.

    DEFAULT                           the distinguished name itself, as Java prints it (RFC 2253)
    RULE:pattern/replacement/[LU]     where the whole name fits the pattern; $1 is its first group; L or U for its case

The pattern is Java's (`broker.config.java_patterns` says what of it is taken). As in Kafka a rule whose pattern fits
the whole name replaces each part of the name that the pattern fits, from the left: with `.*` that is the name, and then
the nothing behind it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.x509 import Certificate, Name, NameAttribute, RelativeDistinguishedName

from broker.config.java_patterns import compile_java
from broker.security.sources import SecurityError

MOST_CHARACTERS = 4096
"""The longest name of a client: a rule of `ssl.principal.mapping.rules` may take long for long names."""

warnings.filterwarnings("ignore", "Attribute's length must be", UserWarning, "broker")  # Java and Kafka take any

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = ',=+<>#;"\\'


def subject_of(certificate: Certificate) -> str:
    """The name of the certificate's subject, the most particular part first."""
    return rfc2253(certificate.subject)


def rfc2253(name: Name) -> str:
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(name.rdns))


def _attribute(attribute: NameAttribute[Any]) -> str:
    oid = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(oid)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{oid}=#{_der(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    inner = value.strip(" ")
    leading = len(value) - len(value.lstrip(" "))
    trailing = len(value) - leading - len(inner)
    text = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in inner)
    return "\\ " * leading + text + "\\ " * trailing


def _der(attribute: NameAttribute[Any]) -> bytes:
    """The attribute's value in DER, with its tag: what follows the type in a name that has nothing else."""
    rest = Name([RelativeDistinguishedName([attribute])]).public_bytes()
    for _ in range(3):  # the name, its only part, and that part's only attribute
        rest = rest[_content_at(rest) :]
    size_of_type = rest[1]
    return rest[2 + size_of_type :]


def _content_at(der: bytes) -> int:
    """Where the content of an element begins, behind its tag and its length."""
    return 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)


_RULES = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_REFERENCES = r"(?s)\\(.)|\$\{([a-zA-Z][a-zA-Z0-9]*)\}|\$([0-9]+)|(.)"
_SEPARATOR = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `pattern` is None for DEFAULT. `replacement` has texts, and the groups whose text stands there."""

    pattern: re.Pattern[str] | None
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """The principal's name; None if the rule does not fit."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        text = self.pattern.sub(self._replaced, name)
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement)


_DEFAULT = Rule(None, (), "")


def parse_rules(key: str, text: str) -> tuple[Rule, ...]:
    """The rules of a setting. Raises SecurityError, which names `key`."""
    rules: list[Rule] = []
    rest = text.strip()
    while rest:
        match = re.match(_RULES, rest)
        if match is None:
            raise SecurityError(f"{key}: expected DEFAULT, or RULE:pattern/replacement/ with L or U, at {rest!r}")
        rules.append(_rule(key, match))
        rest = rest[match.end() :]
        separator = _SEPARATOR.match(rest)
        if rest.strip() and separator is None:
            raise SecurityError(f"{key}: expected a comma at {rest!r}")
        rest = rest[separator.end() :] if separator else ""
    return tuple(rules) or (_DEFAULT,)


def _rule(key: str, match: re.Match[str]) -> Rule:
    default, pattern, replacement, case = match.groups()
    if default:
        return _DEFAULT
    try:
        compiled = compile_java(pattern)
        return Rule(compiled, tuple(_parts(replacement, compiled)), case)
    except ValueError as error:
        raise SecurityError(f"{key}: {error}") from error


def _parts(replacement: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    """The parts, as Java's `Matcher` reads them: a number is the longest that is one of a group. Raises ValueError."""
    for escaped, name, number, other in re.findall(_REFERENCES, replacement):
        if name:
            if name not in pattern.groupindex:
                raise ValueError(f"the replacement {replacement!r} names {name}, which is no group of the pattern")
            yield pattern.groupindex[name]
        elif number:
            if pattern.groups == 0 and number[0] != "0":
                raise ValueError(f"the replacement {replacement!r} names a group, and the pattern has none")
            end = next((end for end in range(len(number), 1, -1) if int(number[:end]) <= pattern.groups), 1)
            group = int(number[:end])
            yield group if group <= pattern.groups else f"${group}"
            yield number[end:]
        elif other == "$":
            raise ValueError(f"the replacement {replacement!r} has $ without a group: write \\$")
        else:
            yield escaped or other


def principal_name(rules: tuple[Rule, ...], name: str) -> str | None:
    """Return the name that the first rule that fits makes of a distinguished name; None if none does."""
    return next((found for rule in rules if (found := rule.apply(name)) is not None), None)
