"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a principal (KIP-371).

DEFAULT                           the distinguished name itself
RULE:pattern/replacement/[LU]     where the whole name fits the pattern; $1 is its first group; L or U for its case
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.security.errors import SecurityError

_RULES = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_SEPARATOR = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """The principal's name; None if the rule does not fit."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        text = re.sub(r"\\(.)|\$(\d)", lambda part: part[1] if part[1] else match[int(part[2])] or "", self.replacement)
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)


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
    return tuple(rules) or (Rule(None, "", ""),)


def _rule(key: str, match: re.Match[str]) -> Rule:
    default, pattern, replacement, case = match.groups()
    if default:
        return Rule(None, "", "")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SecurityError(f"{key}: the pattern {pattern!r} is no regular expression: {error}") from error
    groups = [int(number) for number in re.findall(r"\$(\d)", replacement)]
    if any(number > compiled.groups for number in groups):
        raise SecurityError(f"{key}: the replacement {replacement!r} names a group that the pattern does not have")
    return Rule(compiled, replacement, case)


def principal_name(rules: tuple[Rule, ...], name: str) -> str | None:
    """What the first rule that fits makes of a distinguished name; None if none does."""
    return next((found for rule in rules if (found := rule.apply(name)) is not None), None)
