"""The groups of the cluster, and one of them: its members, its lag over time, and why it waits.

Transactional ids too, one of them, and the partitions that open transactions hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker.authorization.console_table import EVERYTHING
from broker.console import formats
from broker.console.ask import Ask, Values, allowed, paged
from broker.console.charts import Chart, Frame, chart, frame_of
from broker.console.history import COARSE_MS, LAG_MS
from broker.console.tables import MOST_SORTED, Column, arranged, numbers, order_of, texts, times
from broker.node import Node
from broker.replication.partition import Role
from broker.testkit.control.endpoint import ControlError
from broker.testkit.explain import explain_group, explain_transaction
from broker.testkit.inspection import TransactionView, list_summaries, list_transactions, read_groups, read_transaction
from broker.testkit.inspection.groups import GroupSummary, GroupView
from broker.testkit.inspection.partitions import (
    PartitionLag,
    PartitionView,
    concerned,
    read_lags,
    read_partitions,
    total_lag,
)
from coordinator.group.kinds import GroupType
from metadata.acls import ResourceType
from odradek.report import Finding
from protocol.topic_partition import PartitionKey

GROUP = ResourceType.GROUP
ON_A_PAGE = 50
PARTITIONS_ON_A_PAGE = 100
MOST_MEMBERS = 200
MOST_ASSIGNED = 2_000
"""Partitions of members on a page: who joins a group says himself which are his."""

MOST_CHARTS = 12


GROUPS = [
    texts("group", "Group", of=lambda one: one.group_id),
    texts("state", "State", of=lambda one: one.state),
    texts("kind", "Kind", of=lambda one: one.protocol),
    numbers("members", "Members"),
    numbers("lag", "Lag"),
]


async def groups(ask: Ask) -> Values:
    part, state, topic = ask.text("q"), ask.text("state"), ask.text("topic")
    found, unknown = await list_summaries(ask.node)
    by_id = {one.group_id: one for one in found}
    if not ask.rights.allow("list_groups", ResourceType.CLUSTER):
        by_id = {
            name: by_id[name] for name in await allowed(ask.rights, "list_groups", ResourceType.GROUP, list(by_id))
        }
    states = sorted({one.state for one in by_id.values()})
    matching = [one for one in by_id.values() if part.lower() in one.group_id.lower() and state in ("", one.state)]
    not_asked = len(matching) - MOST_SORTED if topic else 0
    if topic:
        matching = await _reading(ask, matching[:MOST_SORTED], topic)

    async def rows_of(listed: list[GroupSummary]) -> list[dict[str, Any]]:
        ids = [one.group_id for one in listed]
        described = [name for name in ids if ask.rights.allow("describe_groups", GROUP, name)]
        seen = {group.group_id: (group, lags) for group, lags in await _see(ask, described)}
        return [_row(ask, one, *seen.get(one.group_id, (None, ()))) for one in listed]

    order, shown, rows = await arranged(ask, GROUPS, matching, ON_A_PAGE, rows_of)
    return {
        "order": order,
        "paging": shown,
        "rows": rows,
        "q": part,
        "state": state,
        "states": states,
        "topic": topic,
        "not_asked": not_asked,
        "unknown": unknown,
    }


async def _reading(ask: Ask, listed: Sequence[GroupSummary], topic: str) -> list[GroupSummary]:
    """Those that read the topic, have committed to it, or subscribe to it, as far as the user may be told."""
    ids = [name for name in (one.group_id for one in listed) if ask.rights.allow("describe_groups", GROUP, name)]
    topics = ask.node.cluster.cache.image.topics
    reading = {
        group.group_id
        for group in await read_groups(ask.node, ids)
        if any(name == topic for name, _ in concerned(group, topics)) and _known(ask, group, (topic,))
    }
    return [one for one in listed if one.group_id in reading]


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
    if not ask.rights.allow("offset_fetch", GROUP, group.group_id):
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


def _partition_columns(group: GroupView) -> list[Column]:
    return [
        texts("topic", "Topic", lambda row: (row["lag"].topic, row["lag"].partition)),
        numbers("partition", "Partition", lambda row: row["lag"].partition),
        numbers("begin", "Start offset" if group.is_share else "Committed", lambda row: row["lag"].begin),
        numbers("end", "End", lambda row: None if row["lag"].unknown else row["lag"].end),
        numbers("lag", "Lag", lambda row: row["lag"].lag),
        texts("member", "Member", lambda row: row["owner"] and (row["owner"].client_id or row["owner"].member_id)),
    ]


MEMBERS = [
    texts("client", "Client", lambda row: row["member"].client_id),
    texts("host", "Host", lambda row: row["member"].host),
    texts("id", "Member id", lambda row: row["member"].member_id),
    times("assigned", "Assigned", lambda row: row["left_out"] + sum(map(len, row["assignment"].values()))),
    texts("waits", "Waits for", lambda row: row["member"].waits_for or None),
    numbers("session", "Session ends in", lambda row: row["member"].session_left_ms),
]


async def group(ask: Ask) -> Values:
    group_id = ask.name("id")
    ((seen, lags),) = await _see(ask, [group_id])
    findings = await explain_group(ask.node, group_id) if ask.rights.allow(EVERYTHING, ResourceType.CLUSTER) else None
    if not seen.exists:
        raise ControlError(_missing(group_id, findings), status=404)
    with_members = shows_members(ask, seen)
    owners = seen.owners() if with_members else {}
    order, by_member = order_of(ask, _partition_columns(seen)), order_of(ask, MEMBERS, "members")
    partitions = [
        {"lag": one, "owner": owners.get((one.topic, one.partition)), "pending": _is_pending(seen, one)} for one in lags
    ]
    shown, frame = paged(ask, order.sort(partitions), PARTITIONS_ON_A_PAGE), frame_of(ask)
    return {
        "title": f"Group {formats.shown(group_id)}",
        "group": seen,
        "members": by_member.sort(_members(ask, seen)) if with_members else None,
        "by_member": by_member,
        "lag": total_lag(seen, lags),
        "order": order,
        "paging": shown,
        "rows": shown.rows,
        "frame": frame,
        "charts": _charts(ask, seen, frame),
        "findings": findings,
    }


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


def _charts(ask: Ask, group: GroupView, frame: Frame) -> list[Chart]:
    """The lag of the whole group, then of the partitions with the most: of what the user may know of.

    Of a whole day only that of the whole group was noted.
    """
    kept = ask.history.lags(group.group_id)
    topics = {topic for topic, _ in concerned(group, ask.node.cluster.cache.image.topics)}
    known = _known(ask, group, {*topics, *(topic for topic, _ in kept.partitions)})
    visible = [(key, series) for key, series in kept.partitions.items() if key[0] in known]
    total: Iterable[tuple[int, int]] = zip(kept.at_ms, kept.total, strict=True)
    step_ms = LAG_MS
    if not topics <= known:
        total = zip(
            kept.at_ms, (sum(each) for each in zip(*(series for _, series in visible), strict=True)), strict=False
        )
    elif frame.is_long:
        total, step_ms = zip(kept.coarse_at_ms, kept.coarse, strict=True), COARSE_MS
    found = [chart("Lag, all partitions", total, formats.count, frame, step_ms)]
    most = sorted(visible, key=lambda one: -one[1][-1])[:MOST_CHARTS]
    if len(visible) > 1 and not frame.is_long:
        found += [
            chart(f"{topic}-{index}", zip(kept.at_ms, series, strict=True), formats.count, frame, LAG_MS)
            for (topic, index), series in sorted(most)
        ]
    return found


TRANSACTIONS_ON_A_PAGE = 50
PARTITIONS_OF_TRANSACTION = 200
PARTITIONS_A_TURN = 500
MOST_HELD = 200


def _transaction_columns(ask: Ask) -> list[Column]:
    return [
        texts("id", "Transactional id", lambda one: one.transactional_id),
        texts("state", "State", lambda one: one.state),
        numbers("open", "Open for", lambda one: -one.start_ms if one.is_open else None),
        numbers("timeout", "Timeout", lambda one: one.timeout_ms),
        numbers("producer", "Producer", lambda one: one.producer_id),
        numbers("epoch", "Epoch", lambda one: one.producer_epoch),
        numbers("partitions", "Partitions", lambda one: len(_named_partitions(ask, one))),
    ]


HELD = [
    texts("partition", "Partition", lambda row: (row["topic"], row["partition"])),
    numbers("first", "From offset", lambda row: row["first_offset"]),
    numbers("behind", "Records held back"),
    texts("holder", "Held by", lambda row: row["holder"] and row["holder"].transactional_id),
    numbers("producer", "Producer", lambda row: row["producer_id"]),
    numbers("last", "Last wrote", lambda row: None if row["last_ms"] is None else -row["last_ms"]),
]


async def transactions(ask: Ask) -> Values:
    part, only_open = ask.text("q"), ask.text("open") == "yes"
    found, unknown = await list_transactions(ask.node)
    names = await allowed(
        ask.rights, "list_transactions", ResourceType.TRANSACTIONAL_ID, [one.transactional_id for one in found]
    )
    visible = set(names)
    matching = [
        one
        for one in found
        if one.transactional_id in visible
        and part.lower() in one.transactional_id.lower()
        and (one.is_open or not only_open)
    ]
    matching.sort(key=lambda one: (not one.is_open, one.start_ms if one.is_open else 0, one.transactional_id))
    order, by_held = order_of(ask, _transaction_columns(ask)), order_of(ask, HELD, "held")
    shown = paged(ask, order.sort(matching), TRANSACTIONS_ON_A_PAGE)
    return {
        "order": order,
        "by_held": by_held,
        "paging": shown,
        "rows": [{"transaction": one, "partitions": len(_named_partitions(ask, one))} for one in shown.rows],
        "unknown": unknown,
        "q": part,
        "only_open": only_open,
        "held": by_held.sort(await _held(ask, found, visible)),
    }


async def _held(ask: Ask, found: Sequence[TransactionView], visible: set[str]) -> list[dict[str, Any]]:
    """The partitions of open transactions, and those with one that this node leads, though no coordinator knows it."""
    keys = dict.fromkeys(
        [*await _held_here(ask.node), *(key for one in found if one.is_open for key in one.partitions)]
    )
    names = {name for name, _ in keys}
    known = {name for name in names if ask.rights.allow("describe_producers", ResourceType.TOPIC, name)}
    views = await read_partitions(ask.node, [key for key in keys if key[0] in known][:MOST_HELD], patience_ms=0)
    by_producer = {one.producer_id: one for one in found if one.transactional_id in visible}
    return [_held_row(ask.node, one, by_producer) for one in views.values() if one.open_producers]


async def _held_here(node: Node) -> list[PartitionKey]:
    """The partitions that this node leads with an open transaction; the loop gets a turn in between."""
    held: list[PartitionKey] = []
    for number, partition in enumerate(list(node.replicas)):
        if number % PARTITIONS_A_TURN == PARTITIONS_A_TURN - 1:
            await asyncio.sleep(0)
        if partition.role is Role.LEADER and partition.log.producers.open_transactions:
            held.append(partition.key)
    return held


def _held_row(node: Node, one: PartitionView, by_producer: Mapping[int, TransactionView]) -> dict[str, Any]:
    """Only a leader knows when a producer wrote last."""
    first_offset, producer_id = next(iter(one.open_producers.items()))
    led = node.replicas.get(one.topic, one.partition) if one.leader == node.node_id else None
    writer = None if led is None else led.log.producers.producers.get(producer_id)
    return {
        "topic": one.topic,
        "partition": one.partition,
        "first_offset": first_offset,
        "behind": one.end - one.stable,
        "producer_id": producer_id,
        "holder": by_producer.get(producer_id),
        "last_ms": None if writer is None else writer.last_timestamp,
    }


def _named_partitions(ask: Ask, one: TransactionView) -> list[PartitionKey]:
    """Those of topics that the user may be told of."""
    topics = {topic for topic, _ in one.partitions}
    told = {topic for topic in topics if ask.rights.allow("describe_transactions", ResourceType.TOPIC, topic)}
    return [key for key in one.partitions if key[0] in told]


async def transaction(ask: Ask) -> Values:
    name = ask.name("id")
    found = await read_transaction(ask.node, name)
    is_told = ask.rights.allow(EVERYTHING, ResourceType.CLUSTER)
    findings = await explain_transaction(ask.node, name) if is_told else None
    if not found.exists:
        text = " ".join(f"{one.text}. {one.advice}" for one in findings or ())
        raise ControlError(text or f"there is no transactional id {name}", status=404)
    return {
        "title": f"Transactional id {formats.shown(name)}",
        "transaction": found,
        "paging": paged(ask, _named_partitions(ask, found), PARTITIONS_OF_TRANSACTION),
        "findings": findings,
    }
