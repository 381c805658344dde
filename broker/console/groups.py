"""The groups of the cluster, and one of them: its members, its lag over time, and why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker.authorization.console_table import EVERYTHING
from broker.console import formats
from broker.console.ask import Ask, Page, allowed, paged
from broker.console.charts import Chart, chart
from broker.testkit.control.endpoint import ControlError
from broker.testkit.explain.explain import explain_group
from broker.testkit.explain.situations import Finding
from broker.testkit.inspection.cluster import list_summaries, read_groups
from broker.testkit.inspection.groups import GroupSummary, GroupView
from broker.testkit.inspection.partitions import PartitionLag, concerned, read_lags, total_lag
from coordinator.group.kinds import GroupType
from metadata.acls import ResourceType

ON_A_PAGE = 50
PARTITIONS_ON_A_PAGE = 100
MOST_MEMBERS = 200
MOST_ASSIGNED = 2_000
"""Partitions of members on a page: who joins a group says himself which are his."""

MOST_CHARTS = 12
LEAST_SHOWN = 30
"""Samples that a chart has room for at least: five minutes."""


async def groups(ask: Ask) -> Page:
    part, state = ask.text("q"), ask.text("state")
    found, unknown = await list_summaries(ask.node)
    by_id = {one.group_id: one for one in found}
    if not ask.rights.allow("list_groups", ResourceType.CLUSTER):
        by_id = {
            name: by_id[name] for name in await allowed(ask.rights, "list_groups", ResourceType.GROUP, list(by_id))
        }
    states = sorted({one.state for one in by_id.values()})
    matching = [one for one in by_id.values() if part.lower() in one.group_id.lower() and state in ("", one.state)]
    shown = paged(ask, matching, ON_A_PAGE)
    described = [
        one.group_id for one in shown.rows if ask.rights.allow("describe_groups", ResourceType.GROUP, one.group_id)
    ]
    seen = {group.group_id: (group, lags) for group, lags in await _see(ask, described)}
    rows = [_row(ask, one, *seen.get(one.group_id, (None, ()))) for one in shown.rows]
    return Page(
        "groups.html",
        "Groups",
        {"paging": shown, "rows": rows, "q": part, "state": state, "states": states, "unknown": unknown},
    )


def _row(ask: Ask, listed: GroupSummary, group: GroupView | None, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    """A user who may list a group but not describe it is told its id, state and kind."""
    members = None if group is None or not shows_members(ask, group) else len(group.members)
    lag = None if group is None else total_lag(group, lags)
    return {"group": group or listed, "members": members, "lag": lag}


async def _see(ask: Ask, group_ids: Sequence[str]) -> list[tuple[GroupView, list[PartitionLag]]]:
    """The groups, and their lags in the topics that the user may know the group's offsets of."""
    groups = await read_groups(ask.node, group_ids)
    lags = await read_lags(ask.node, groups)
    found = []
    for group, of in zip(groups, lags, strict=True):
        known = _known(ask, group, (one.topic for one in of))
        found.append((group, [one for one in of if one.topic in known]))
    return found


def _known(ask: Ask, group: GroupView, topics: Iterable[str]) -> set[str]:
    """Those topics of which the user may be told what the group has to do with them."""
    if not ask.rights.allow("offset_fetch", ResourceType.GROUP, group.group_id):
        return set()
    return {name for name in set(topics) if ask.rights.allow("offset_fetch", ResourceType.TOPIC, name)}


def shows_members(ask: Ask, group: GroupView) -> bool:
    """As in ConsumerGroupDescribe: one topic that the user may not describe hides who is in the group."""
    if group.protocol == GroupType.CLASSIC.value:
        return True  # as in DescribeGroups
    topics = group.topics.union(topic for topic, _ in group.owners())
    return all(ask.rights.allow("consumer_group_describe", ResourceType.TOPIC, topic) for topic in topics)


def _missing(group_id: str, findings: list[Finding] | None) -> str:
    if not findings:
        return f"there is no group {group_id}"
    return " ".join(f"{one.text}. {one.advice}" for one in findings)


async def group(ask: Ask) -> Page:
    group_id = ask.name("id")
    ((seen, lags),) = await _see(ask, [group_id])
    findings = await explain_group(ask.node, group_id) if ask.rights.allow(EVERYTHING, ResourceType.CLUSTER) else None
    if not seen.exists:
        raise ControlError(_missing(group_id, findings), status=404)
    with_members = shows_members(ask, seen)
    owners = seen.owners() if with_members else {}
    shown = paged(ask, lags, PARTITIONS_ON_A_PAGE)
    return Page(
        "group.html",
        f"Group {formats.shown(group_id)}",
        {
            "group": seen,
            "members": _members(ask, seen) if with_members else None,
            "lag": total_lag(seen, lags),
            "paging": shown,
            "rows": [
                {"lag": one, "owner": owners.get((one.topic, one.partition)), "pending": _is_pending(seen, one)}
                for one in shown.rows
            ],
            "charts": _charts(ask, seen),
            "findings": findings,
        },
    )


def _members(ask: Ask, seen: GroupView) -> list[dict[str, Any]]:
    """The first members, with as many of their partitions as the page has room for, of known topics."""
    room, found = MOST_ASSIGNED, []
    for member in seen.members[:MOST_MEMBERS]:
        topics = _known(ask, seen, member.assignment)
        known = {topic: of for topic, of in member.assignment.items() if topic in topics}
        assignment: dict[str, list[int]] = {}
        for topic, indexes in known.items():
            if room <= 0:
                break
            assignment[topic] = list(indexes[:room])
            room -= 1 + len(indexes)
        left_out = sum(map(len, known.values())) - sum(map(len, assignment.values()))
        leads = member.member_id == seen.leader
        found.append({"member": member, "leads": leads, "assignment": assignment, "left_out": left_out})
    return found


def _is_pending(seen: GroupView, lag: PartitionLag) -> bool:
    return (lag.topic, lag.partition) in seen.in_transactions


def _charts(ask: Ask, group: GroupView) -> list[Chart]:
    """The lag of the whole group, then of the partitions with the most: of what the user may know of."""
    kept = ask.history.lags(group.group_id)
    topics = {topic for topic, _ in concerned(group, ask.node.cluster.cache.image.topics)}
    known = _known(ask, group, {*topics, *(topic for topic, _ in kept.partitions)})
    visible = [(key, series) for key, series in kept.partitions.items() if key[0] in known]
    total: Sequence[int] = kept.total
    if not topics <= known:
        total = [sum(each) for each in zip(*(series for _, series in visible), strict=True)]
    found = [chart("Lag, all partitions", list(total), formats.count, slots=LEAST_SHOWN)]
    most = sorted(visible, key=lambda one: -one[1][-1])[:MOST_CHARTS]
    if len(visible) > 1:
        found += [
            chart(f"{topic}-{index}", list(series), formats.count, slots=LEAST_SHOWN)
            for (topic, index), series in sorted(most)
        ]
    return found
