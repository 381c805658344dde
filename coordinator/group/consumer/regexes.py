"""When the regular expressions of a group are matched against the topics (Kafka's `maybeUpdateRegularExpressions`).

Matching is a separate operation, after the heartbeat that finds it due. The group epoch rises only with its result, so
that all expressions of a group together cause one rebalance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import structlog

from coordinator.group.consumer import records
from coordinator.group.consumer.advance import raise_epoch
from coordinator.group.consumer.change import Change
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.regex import NOTHING_RESOLVED, compile_regex, resolve
from coordinator.group.consumer.target import topics_of
from coordinator.runtime.outcome import Outcome

logger = structlog.get_logger(__name__)

MIN_REFRESH_INTERVAL_MS = 10_000


def update_regexes(
    groups: ConsumerGroups,
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
            change.records.append(records.regex(group.group_id, before.regex, None))
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


def _is_due(groups: ConsumerGroups, group: ConsumerGroup, wanted: int, is_new: bool) -> bool:
    """Whether to match them. A group's are all matched together, so the first one's time and version hold for all."""
    last = next(iter(group.resolved.values()), None)
    if last is None:
        return True
    age_ms = groups.context.clock.wall_ms() - last.timestamp_ms
    if age_ms <= MIN_REFRESH_INTERVAL_MS:
        return False
    # A version higher than ours comes from a log that Kafka wrote, and means nothing here.
    has_new_topics = not groups.topics.newest <= last.version <= groups.topics.version
    is_old = age_ms > groups.config.regex_refresh_interval_ms
    return is_new or wanted != len(group.resolved) or has_new_topics or is_old


def refresh(
    groups: ConsumerGroups, group_id: str, regexes: Collection[str], may_describe: Callable[[str], bool]
) -> Outcome[None] | None:
    """Match the expressions against the current topics (Kafka's `handleRegularExpressionsResult`)."""
    group = groups.find(group_id)
    if group is None:
        return None
    counts = group.subscribed_regexes
    topics = groups.topics
    now_ms = groups.context.clock.wall_ms()
    names = filter(may_describe, topics.names())
    found = resolve([regex for regex in regexes if regex in counts], names, topics.version, now_ms)
    resolved = {**group.resolved, **found}
    change = Change()
    change.records += [records.regex(group_id, regex, matched) for regex, matched in found.items()]
    metadata_hash = groups.metadata_hash(topics_of(group.members.values(), resolved))
    differs = any(match.topics != group.resolved.get(regex, NOTHING_RESOLVED).topics for regex, match in found.items())
    if differs or metadata_hash != group.metadata_hash:
        raise_epoch(group, metadata_hash, change)
        change.after.append(groups.metrics.count_rebalance)
        change.after.append(lambda: groups.mark_fresh(group_id))
    logger.info("regular expressions matched", group=group_id, expressions=list(found))
    return change.outcome(None)
