"""The groups of the cluster, and one of them: its members, its lag over time, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.console import formats
from broker.console.ask import Ask, Page, allowed, paged
from broker.console.charts import Chart, chart
from broker.control.endpoint import ControlError
from broker.explain.explain import explain_group
from broker.explain.finding import Finding
from broker.inspection.cluster import list_summaries, read_groups
from broker.inspection.groups import GroupView
from broker.inspection.lag import PartitionLag, read_lags, total_lag
from metadata.acls import AclOperation, ResourceType

ON_A_PAGE = 50
PARTITIONS_ON_A_PAGE = 100
MOST_MEMBERS = 200
MOST_CHARTS = 12
LEAST_SHOWN = 30
"""Samples that a chart has room for at least: five minutes."""


async def groups(ask: Ask) -> Page:
    part, state = ask.text("q"), ask.text("state")
    found, unknown = await list_summaries(ask.node)
    states = sorted({one.state for one in found})
    by_id = {one.group_id: one for one in found if part.lower() in one.group_id.lower() and state in ("", one.state)}
    shown = paged(ask, await allowed(ask.rights, ResourceType.GROUP, list(by_id)), ON_A_PAGE)
    seen = await _see(ask, shown.rows)
    rows = [{"group": group, "lag": total_lag(group, lags)} for group, lags in seen]
    return Page(
        "groups.html",
        "Groups",
        {"paging": shown, "rows": rows, "q": part, "state": state, "states": states, "unknown": unknown},
    )


async def _see(ask: Ask, group_ids: Sequence[str]) -> list[tuple[GroupView, list[PartitionLag]]]:
    groups = await read_groups(ask.node, group_ids)
    visible = [[one for one in lags if ask.rights.sees_topic(one.topic)] for lags in await read_lags(ask.node, groups)]
    return [*zip(groups, visible, strict=True)]


def _missing(group_id: str, findings: list[Finding] | None) -> str:
    if not findings:
        return f"there is no group {group_id}"
    return " ".join(f"{one.text}. {one.advice}" for one in findings)


async def group(ask: Ask) -> Page:
    group_id = ask.name("id")
    ask.rights.check(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
    ((seen, lags),) = await _see(ask, [group_id])
    findings = await explain_group(ask.node, group_id) if ask.sees_all_names else None
    if not seen.exists:
        raise ControlError(_missing(group_id, findings), status=404)
    owners = seen.owners()
    shown = paged(ask, lags, PARTITIONS_ON_A_PAGE)
    return Page(
        "group.html",
        f"Group {formats.shown(group_id)}",
        {
            "group": seen,
            "members": [_member(seen, number) for number in range(min(len(seen.members), MOST_MEMBERS))],
            "lag": total_lag(seen, lags),
            "paging": shown,
            "rows": [
                {"lag": one, "owner": owners.get((one.topic, one.partition)), "pending": _is_pending(seen, one)}
                for one in shown.rows
            ],
            "charts": _charts(ask, group_id),
            "findings": findings,
        },
    )


def _member(seen: GroupView, number: int) -> dict[str, Any]:
    member = seen.members[number]
    return {
        "member": member,
        "leads": member.member_id == seen.leader,
        "topics": None if member.topics is None else sorted(member.topics),
        "assignment": {topic: list(indexes) for topic, indexes in member.assignment.items()},
    }


def _is_pending(seen: GroupView, lag: PartitionLag) -> bool:
    return (lag.topic, lag.partition) in seen.in_transactions


def _charts(ask: Ask, group_id: str) -> list[Chart]:
    """The lag of the whole group, then of the partitions with the most."""
    kept = ask.history.lags(group_id)
    found = [chart("Lag, all partitions", list(kept.total), formats.count, slots=LEAST_SHOWN)]
    visible = [(key, series) for key, series in kept.partitions.items() if ask.rights.sees_topic(key[0])]
    most = sorted(visible, key=lambda one: -one[1][-1])[:MOST_CHARTS]
    if len(kept.partitions) > 1:
        found += [
            chart(f"{topic}-{index}", list(series), formats.count, slots=LEAST_SHOWN)
            for (topic, index), series in sorted(most)
        ]
    return found
