"""Subscriptions by regular expression (KIP-848): RE2's, matched with whole topic names.

Matching is a separate operation, after the heartbeat that finds it due (Kafka's `maybeUpdateRegularExpressions`). The
group epoch rises only with its result, so that all expressions of a group together cause one rebalance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import structlog

from coordinator.group.consumer.group import ConsumerGroup, ConsumerMember, ResolvedRegex, subscription
from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import Change, raise_epoch
from coordinator.runtime.outcome import Outcome
from protocol.errors import InvalidRegularExpression
from protocol.re2_patterns import InvalidPatternError, Pattern, compile_pattern, quiet_options, re2_module

logger = structlog.get_logger(__name__)

_LITERAL = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?[^]]*\]", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?P?<(\w+)>")

MOST_AT_ONCE = 5_000
"""In RE2's instructions. A larger combined expression may exceed RE2's memory, which RE2 does not report."""

MIN_REFRESH_INTERVAL_MS = 10_000

NOTHING_RESOLVED = ResolvedRegex(frozenset(), -1, -1)


def update_regexes(
    groups: ModernGroups,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    change: Change,
    may_describe: Callable[[str], bool],
) -> bool:
    """Record the member's new expression, and have all expressions matched if that is due.

    They match topics that `may_describe` lets the client see. Returns whether the group epoch must rise. Raises
    InvalidRegularExpression for a new one.
    """
    counts = group.subscribed_regexes
    if not counts and not member.regex:
        return False
    bump = is_new = False
    if before.regex != member.regex:
        if before.regex and counts.get(before.regex) == 1:
            change.records.append(group.regex_record(before.regex, None))
        if member.regex and member.regex not in counts:
            compile_regex(member.regex)
            is_new = True
        elif member.regex:
            bump = member.regex in group.resolved
        else:
            bump = True
    wanted = Counter(counts)
    wanted.subtract([before.regex or ""])
    wanted.update([member.regex or ""])
    regexes = [regex for regex, count in wanted.items() if regex and count > 0]
    if regexes and _is_due(groups, group, len(regexes), is_new):
        group_id = group.group_id
        change.after.append(lambda: groups.context.tell(lambda _: refresh(groups, group_id, regexes, may_describe)))
    return bump


def _is_due(groups: ModernGroups, group: ConsumerGroup, wanted: int, is_new: bool) -> bool:
    """Whether to match them. A group's are all matched together, so the first one's time and version hold for all."""
    last = next(iter(group.resolved.values()), None)
    if last is None:
        return True
    age_ms = groups.context.clock.wall_ms() - last.timestamp_ms
    if age_ms <= MIN_REFRESH_INTERVAL_MS:
        return False
    # A version higher than ours comes from a log that Kafka wrote, and means nothing here.
    has_new_topics = not groups.topics.newest <= last.version <= groups.topics.version
    is_old = age_ms > groups.consumer_config.regex_refresh_interval_ms
    return is_new or wanted != len(group.resolved) or has_new_topics or is_old


def refresh(
    groups: ModernGroups, group_id: str, regexes: Collection[str], may_describe: Callable[[str], bool]
) -> Outcome[None] | None:
    """Match the expressions against the current topics (Kafka's `handleRegularExpressionsResult`)."""
    group = groups.find(ConsumerGroup, group_id)
    if group is None:
        return None
    counts = group.subscribed_regexes
    topics = groups.topics
    now_ms = groups.context.clock.wall_ms()
    names = filter(may_describe, topics.names())
    found = resolve([regex for regex in regexes if regex in counts], names, topics.version, now_ms)
    resolved = {**group.resolved, **found}
    change = Change()
    change.records += [group.regex_record(regex, matched) for regex, matched in found.items()]
    subscribed = (subscription(member, resolved) for member in group.members.values())
    metadata_hash = groups.metadata_hash(frozenset[str]().union(*subscribed))
    differs = any(match.topics != group.resolved.get(regex, NOTHING_RESOLVED).topics for regex, match in found.items())
    if differs or metadata_hash != group.metadata_hash:
        raise_epoch(group, metadata_hash, change)
        change.after.append(groups.counts.count_consumer_rebalance)
        change.after.append(lambda: groups.mark_fresh(group_id))
    logger.info("regular expressions matched", group=group_id, expressions=list(found))
    return change.outcome(None)


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
