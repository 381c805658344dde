"""What the report of a failing test shows of the broker, in one answer."""

from __future__ import annotations

from typing import Any

from broker.control.endpoint import Endpoint, Kind, Parameter, Values
from broker.control.group_json import group_json, lag_json
from broker.control.journal import DEFAULT_LIMIT, read_journal
from broker.control.transactions import transaction_json
from broker.inspection.groups import list_groups
from broker.inspection.lag import partition_lags
from broker.inspection.partitions import read_topic
from broker.inspection.transactions import list_transactions
from broker.node import Node


async def _report(node: Node, values: Values) -> dict[str, Any]:
    image, now_ms = node.cluster.cache.image, node.local.clock.wall_ms()
    transactions = await list_transactions(node.coordinators.transactions)
    return {
        "topics": [_topic(node, topic.name) for topic in image.topics.sorted() if not topic.is_internal],
        "groups": [
            group_json(group) | {"lag": lag_json(group, partition_lags(group, image.topics, node.replicas))}
            for group in await list_groups(node.coordinators.groups)
        ],
        "transactions": [transaction_json(transaction, now_ms) for transaction in transactions if transaction.is_open],
        "journal": read_journal(node, values),
    }


def _topic(node: Node, topic: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "partitions": [
            {"partition": one.partition, "start": one.start, "end": one.end, "stable": one.stable}
            for one in read_topic(node, topic)
            if one.start >= 0  # in a cluster, another broker leads it
        ],
    }


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
