"""What the report of a failing test shows of the broker, in one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from broker.control.budget import Budget
from broker.control.endpoint import Endpoint, Kind, Parameter, Values
from broker.control.group_json import group_json, lag_json
from broker.control.journal import DEFAULT_LIMIT, read_journal
from broker.control.topic_reader import MOST
from broker.control.transactions import transaction_json
from broker.inspection.cluster import list_groups, list_transactions
from broker.inspection.lag import read_lags
from broker.inspection.partitions import PartitionView, read_topics
from broker.node import Node

T = TypeVar("T")


async def _report(node: Node, values: Values) -> dict[str, Any]:
    now_ms = node.local.clock.wall_ms()
    topics = [topic.name for topic in node.cluster.cache.image.topics.sorted() if not topic.is_internal]
    by_topic: dict[str, list[PartitionView]] = {topic: [] for topic in topics}
    for one in (await read_topics(node, topics)).values():
        by_topic[one.topic].append(one)
    groups, transactions = await list_groups(node), await list_transactions(node)
    lags = await read_lags(node, groups.found)
    shown_topics = _within(by_topic.items(), lambda one: _topic(*one))
    shown_groups = _within(
        zip(groups.found, lags, strict=True),
        lambda one: group_json(one[0]) | {"lag": lag_json(*one)},
    )
    is_open = [each for each in transactions.found if each.is_open]
    shown_transactions = _within(is_open, lambda one: transaction_json(one, now_ms))
    left_out = len(topics) + len(groups.found) + len(is_open)
    left_out -= len(shown_topics) + len(shown_groups) + len(shown_transactions)
    missing = [f"{left_out} more topics, groups and transactions are there than a report shows"] if left_out else []
    return {
        "topics": shown_topics,
        "groups": shown_groups,
        "transactions": shown_transactions,
        "unknown": [*groups.unknown, *transactions.unknown, *missing],
        "journal": await read_journal(node, values),
    }


def _within(some: Iterable[T], shown: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `shown` makes of each, as far as the budget reaches."""
    budget = Budget(MOST)
    found: list[dict[str, Any]] = []
    for one in some:
        if budget.is_spent:
            break
        found.append(shown(one))
        budget.keep(len(json.dumps(found[-1])))
    return found


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
