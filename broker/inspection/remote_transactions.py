"""Transactional ids as their coordinator on another broker describes them, which may be Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1 import ListTransactionsRequest

from broker.inspection.transactions import TransactionView
from broker.node import Node
from broker.peers.leaders import ask, check
from protocol.topic_partition import PartitionKey

MILLISECOND = timedelta(milliseconds=1)
DESCRIBED_AT_ONCE = 500
"""Transactional ids in a request: see `remote_groups`."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def list_transactions_at(node: Node, broker_id: int) -> list[TransactionView]:
    """The transactional ids that a broker coordinates. Raises KafkaError."""
    answer = await ask(node.cluster.peers.reach, broker_id, ListTransactionsRequest(), lowest=0)
    check(broker_id, answer.error_code)
    return await describe_transactions_at(node, broker_id, [one.transactional_id for one in answer.transaction_states])


async def describe_transactions_at(node: Node, broker_id: int, ids: Sequence[str]) -> list[TransactionView]:
    """These transactional ids of a coordinator, in order; some hundreds at a time. Raises KafkaError."""
    by_id: dict[str, Any] = {}
    for begin in range(0, len(ids), DESCRIBED_AT_ONCE):
        request = DescribeTransactionsRequest(transactional_ids=tuple(ids[begin : begin + DESCRIBED_AT_ONCE]))
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=0)
        by_id |= {one.transactional_id: one for one in answer.transaction_states}
    return [_view(broker_id, name, by_id[name]) for name in ids]


def _view(broker_id: int, name: str, one: Any) -> TransactionView:
    """What its coordinator tells. Once a transaction is decided, its partitions are those whose marker is missing."""
    if one.error_code is ErrorCode.transactional_id_not_found:
        return TransactionView(name, coordinator=broker_id)
    check(broker_id, one.error_code)
    start_ms = -1 if one.transaction_start_time is None else (one.transaction_start_time - EPOCH) // MILLISECOND
    found = TransactionView(
        name,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout // MILLISECOND,
        start_ms,
        sorted(_partitions(one.topics)),
        coordinator=broker_id,
    )
    return replace(found, without_marker=found.partitions) if found.is_prepared else found


def _partitions(topics: Iterable[Any]) -> Iterable[PartitionKey]:
    return ((topic.topic, index) for topic in topics for index in topic.partitions)
