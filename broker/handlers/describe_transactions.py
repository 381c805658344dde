"""DescribeTransactions 0 (KIP-664; Kafka's `TransactionCoordinator.handleDescribeTransactions`)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest, DescribeTransactionsResponse
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.describe_transactions.v0.response import TransactionState as DescribedTransactionState
from kio.schema.errors import ErrorCode

from broker.network.answers import ask_each
from broker.request_context import RequestContext
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from metadata.acls import AclOperation, ResourceType
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import InvalidRequest, KafkaError, TransactionalIdNotFound
from protocol.topic_partition import by_topic

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    coordinator = ctx.coordinators.transactions

    def answer(found: Mapping[str, DescribedTransactionState | KafkaError]) -> DescribeTransactionsResponse:
        described = {
            name: _failed(name, state) if isinstance(state, KafkaError) else state for name, state in found.items()
        }
        return _response([described[name] for name in request.transactional_ids])

    return ask_each(
        request.transactional_ids,
        lambda name: coordinator.read(name, partial(_describe, ctx=ctx, transactional_id=name)),
        answer,
    )


def _describe(
    state: TransactionCoordinatorShard, ctx: RequestContext, transactional_id: str
) -> DescribedTransactionState:
    if not transactional_id:
        raise InvalidRequest
    found = state.get(transactional_id)
    if found is None:
        raise TransactionalIdNotFound
    topics = by_topic(sorted(state.partitions_left(transactional_id, found)))
    return DescribedTransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=found.state.wire_name,
        transaction_timeout=found.timeout_ms * MILLISECOND,
        transaction_start_time=EPOCH + found.start_ms * MILLISECOND,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            TopicData(topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
            if ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        ),
    )


def _failed(transactional_id: str, error: KafkaError) -> DescribedTransactionState:
    return DescribedTransactionState(
        error_code=error.code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=EPOCH,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def _response(states: list[DescribedTransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(throttle_time=ZERO, transaction_states=tuple(states))
