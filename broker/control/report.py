"""What the report of a failing test shows of the broker, in one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.control.endpoint import Endpoint, Kind, Parameter, Values
from broker.control.group_json import group_json, lag_json
from broker.control.journal import DEFAULT_LIMIT, read_journal
from broker.control.transactions import transaction_json
from broker.inspection.cluster import list_groups, list_transactions
from broker.inspection.lag import read_lags
from broker.inspection.partitions import PartitionView, read_topics
from broker.node import Node


async def _report(node: Node, values: Values) -> dict[str, Any]:
    now_ms = node.local.clock.wall_ms()
    topics = [topic.name for topic in node.cluster.cache.image.topics.sorted() if not topic.is_internal]
    partitions = [*(await read_topics(node, topics)).values()]
    groups, transactions = await list_groups(node), await list_transactions(node)
    lags = await read_lags(node, groups.found)
    return {
        "topics": [_topic(topic, [one for one in partitions if one.topic == topic]) for topic in topics],
        "groups": [
            group_json(group) | {"lag": lag_json(group, of_group)}
            for group, of_group in zip(groups.found, lags, strict=True)
        ],
        "transactions": [transaction_json(each, now_ms) for each in transactions.found if each.is_open],
        "unknown": [*groups.unknown, *transactions.unknown],
        "journal": await read_journal(node, values),
    }


def _topic(topic: str, partitions: Sequence[PartitionView]) -> dict[str, Any]:
    return {"topic": topic, "partitions": [_partition(one) for one in partitions]}


def _partition(one: PartitionView) -> dict[str, Any]:
    if one.unknown:
        return {"partition": one.partition, "unknown": one.unknown}
    return {"partition": one.partition, "start": one.start, "end": one.end, "stable": one.stable}


ENDPOINTS = (
    Endpoint(
        "GET",
        "/report",
        "Topics with their offsets, groups with members and lag, open transactions, and the journal.",
        _report,
        (
            Parameter("since", Kind.INTEGER, "a mark of the journal: only what came after it", least=0),
            Parameter("limit", Kind.INTEGER, f"so many entries of the journal (default {DEFAULT_LIMIT})", least=0),
        ),
    ),
)
