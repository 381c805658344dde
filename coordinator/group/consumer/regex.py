"""Subscriptions by regular expression (KIP-848): RE2's, matched with whole topic names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from protocol.errors import InvalidRegularExpression
from protocol.re2_patterns import InvalidPatternError, Pattern, compile_pattern, quiet_options, re2_module

logger = structlog.get_logger(__name__)

_LITERAL = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?[^]]*\]", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?P?<(\w+)>")

MOST_AT_ONCE = 5_000
"""In RE2's instructions. A larger combined expression may exceed RE2's memory, which RE2 does not report."""


class ResolvedRegex(NamedTuple):
    """The topics that matched (Kafka's `ResolvedRegularExpression`).

    `version` is that of the topics when they were matched; `timestamp_ms` is of the wall clock.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NOTHING_RESOLVED = ResolvedRegex(frozenset(), -1, -1)


def compile_regex(regex: str) -> Pattern:
    """The expression compiled by RE2. Raises InvalidRegularExpression."""
    try:
        compiled = compile_pattern(regex)
    except InvalidPatternError as error:
        raise _invalid(regex, str(error)) from error
    names = _NAMED_GROUP.findall(_LITERAL.sub("", regex))
    if len(names) != len(set(names)):  # RE2 accepts this, its Java port does not
        raise _invalid(regex, "duplicate capture group name")
    return compiled


def _invalid(regex: str, why: str) -> InvalidRegularExpression:
    return InvalidRegularExpression(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}.")


def resolve(regexes: Iterable[str], topics: Iterable[str], version: int, now_ms: int) -> dict[str, ResolvedRegex]:
    """The matches of each expression among these topics; an invalid one matches nothing.

    A log that Kafka wrote may hold an invalid one: Kafka accepts some that RE2 does not.
    """
    patterns = {regex: _valid(regex) for regex in regexes}
    found = _matches({regex: pattern for regex, pattern in patterns.items() if pattern is not None}, list(topics))
    return {regex: ResolvedRegex(frozenset(found.get(regex, ())), version, now_ms) for regex in patterns}


def _valid(regex: str) -> Pattern | None:
    """The compiled expression; None if it is not valid."""
    try:
        return compile_regex(regex)
    except InvalidRegularExpression as error:
        logger.error("regular expression ignored", error=str(error))
        return None


def _matches(patterns: Mapping[str, Pattern], names: Sequence[str]) -> Mapping[str, Iterable[str]]:
    """The matching names by expression. One pass matches all, many times faster than one expression after another."""
    if not 0 < sum(pattern.programsize for pattern in patterns.values()) <= MOST_AT_ONCE:
        return {regex: filter(pattern.fullmatch, names) for regex, pattern in patterns.items()}
    together = re2_module().Set.FullMatchSet(quiet_options())
    for regex in patterns:
        together.Add(regex)
    together.Compile()
    found: dict[str, list[str]] = {regex: [] for regex in patterns}
    by_index = list(found.values())
    for name in names:
        for index in together.Match(name) or ():
            by_index[index].append(name)
    return found
