"""Transactions and producers for operators and other brokers.

WriteTxnMarkers 1-2 (KIP-98, KIP-1228; Kafka's `KafkaApis.handleWriteTxnMarkersRequest`): writes the given markers.

Coordinators on other brokers send it to the leaders of a transaction's partitions; admins send it to end a transaction
that its coordinator does not know (KIP-664).

DescribeProducers 0 (KIP-664; Kafka's `KafkaApis.handleDescribeProducersRequest`): who writes to a partition.

DescribeTransactions 0 (KIP-664; Kafka's `TransactionCoordinator.handleDescribeTransactions`).

ListTransactions 0-2 (KIP-664, KIP-994, KIP-1152; Kafka's `TransactionStateManager.listTransactionStates`).

Patterns are RE2's, whose cost is bounded (Kafka uses RE2/J): with Python's own, a client could stall the node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.response import PartitionResponse, ProducerState, TopicResponse
from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest, DescribeTransactionsResponse
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.describe_transactions.v0.response import TransactionState as DescribedTransactionState
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2 import ListTransactionsRequest, ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState as ListedTransactionState
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)

from broker.coordinators.hosted import of_those_here
from broker.network.answers import ask_each, when_all_settled
from broker.replication.partition import Partition
from broker.request_context import RequestContext
from coordinator.transaction.marker_sender import EndMarker
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from coordinator.transaction.transaction_metadata import BY_WIRE_NAME, TransactionMetadata
from metadata import topic_names
from metadata.acls import AclOperation, ResourceType
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    KafkaStorage,
    NotCoordinator,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from protocol.re2_patterns import InvalidPatternError, Pattern, compile_pattern
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey, by_topic

NOT_READY = (CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator)
"""Errors of the group coordinator that are sent as NOT_LEADER_OR_FOLLOWER, so that the client retries."""

NO_PRODUCER_EPOCH = -1

Codes = dict[int, dict[PartitionKey, ErrorCode]]


def write_txn_markers(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    codes: Codes = {}
    waiting: list[tuple[int, PartitionKey]] = []
    futures = []
    for marker in request.markers:
        write = ctx.coordinators.transactions.markers.marker_writer_here(
            EndMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.transaction_result,
                transaction_version=marker.transaction_version,
            )
        )
        for partition in _partitions(marker):
            online = ctx.replicas.online(*partition) is not None
            if _names_no_producer(marker) and online:
                raise InvalidRequest("A marker names no producer.")
            try:
                if not online:
                    raise UnknownTopicOrPartition
                if marker.transaction_version < 0:
                    raise InvalidRequest("A marker has a negative version of transactions.")
                written = write(*partition)
            except KafkaError as error:
                _note(codes, marker.producer_id, partition, error)
                continue
            _note(codes, marker.producer_id, partition, None)
            if written is not None:
                waiting.append((marker.producer_id, partition))
                futures.append(written)

    def answer(results: Sequence[Any]) -> WriteTxnMarkersResponse:
        for (producer_id, partition), result in zip(waiting, results, strict=True):
            _note(codes, producer_id, partition, result)
        return _write_txn_markers_response(codes)

    return when_all_settled(futures, answer)


def _names_no_producer(marker: WritableTxnMarker) -> bool:
    return bool(marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH)


def _partitions(marker: WritableTxnMarker) -> list[PartitionKey]:
    """The marker's partitions; one that is named twice gets one marker, as in Kafka."""
    return list(dict.fromkeys((topic.name, index) for topic in marker.topics for index in topic.partition_indexes))


def _note(codes: Codes, producer_id: int, partition: PartitionKey, error: KafkaError | None) -> None:
    code = ErrorCode.none if error is None else error.code
    if isinstance(error, NOT_READY):
        code = ErrorCode.not_leader_or_follower
    codes.setdefault(producer_id, {})[partition] = code


def _write_txn_markers_response(codes: Codes) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(found))
            for producer_id, found in codes.items()
        )
    )


def _topics(codes: dict[PartitionKey, ErrorCode]) -> tuple[WritableTxnMarkerTopicResult, ...]:
    return tuple(
        WritableTxnMarkerTopicResult(
            name=topic,
            partitions=tuple(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[topic, index])
                for index in indexes
            ),
        )
        for topic, indexes in by_topic(codes).items()
    )


def describe_producers(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time=ZERO,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_partition(ctx, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        ),
    )


def _partition(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    reason = topic_names.invalid_reason(topic)
    if reason is not None:
        return _describe_producers_failed(index, InvalidTopic(reason), reason)
    if ctx.image.topics.get(topic) is None:
        return _describe_producers_failed(index, UnknownTopicOrPartition(), UnknownTopicOrPartition.default_message)
    try:
        partition = ctx.replicas.find(topic, index)
    except KafkaError as error:
        return _describe_producers_failed(index, error, None)
    if partition.log.is_offline:
        return _describe_producers_failed(index, KafkaStorage(), None)
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=_producers(partition),
    )


def _producers(partition: Partition) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        for _, entry in sorted(partition.log.producers.producers.items())
    )


def _describe_producers_failed(index: int, error: KafkaError, message: str | None) -> PartitionResponse:
    """The answer for an error. Kafka sends a message for a topic's error, none for that of a partition it knows."""
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=message, active_producers=())


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    coordinator = ctx.coordinators.transactions

    def answer(found: Mapping[str, DescribedTransactionState | KafkaError]) -> DescribeTransactionsResponse:
        described = {
            name: _described_failed(name, state) if isinstance(state, KafkaError) else state
            for name, state in found.items()
        }
        return _described_response([described[name] for name in request.transactional_ids])

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


def _described_failed(transactional_id: str, error: KafkaError) -> DescribedTransactionState:
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


def _described_response(states: list[DescribedTransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(throttle_time=ZERO, transaction_states=tuple(states))


DESCRIBE = AclOperation.DESCRIBE


@dataclass(frozen=True, slots=True)
class Filter:
    """The filters; an empty one lets everything pass."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    longer_than_ms: int
    pattern: Pattern | None

    def matches(self, transactional_id: str, metadata: TransactionMetadata, now_ms: int) -> bool:
        return (
            (not self.states or metadata.state.wire_name in self.states)
            and (not self.producer_ids or metadata.producer_id in self.producer_ids)
            and (self.longer_than_ms < 0 or now_ms - metadata.start_ms > self.longer_than_ms)
            and (self.pattern is None or self.pattern.fullmatch(transactional_id) is not None)
        )


def list_transactions(
    ctx: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    """Raises InvalidRegularExpression."""
    wanted = _filter(request)
    now_ms = ctx.local.clock.wall_ms()
    unknown = tuple(name for name in dict.fromkeys(request.state_filters) if name not in BY_WIRE_NAME)

    def answer(found: Iterable[list[ListedTransactionState]]) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            unknown_state_filters=unknown,
            transaction_states=tuple(
                state
                for state in sorted(chain.from_iterable(found), key=attrgetter("transactional_id"))
                if ctx.allows(DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id)
            ),
        )

    lists = ctx.coordinators.transactions.read_all(lambda state: _found(state, wanted, now_ms))
    return when_all_settled(lists, lambda answers: answer(of_those_here(answers)))


def _filter(request: ListTransactionsRequest) -> Filter:
    return Filter(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        _compiled(request.transactional_id_pattern),
    )


def _compiled(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    try:
        return compile_pattern(pattern)
    except InvalidPatternError as error:
        raise InvalidRegularExpression(f"The pattern of transactional ids is invalid: {error}") from error


def _found(state: TransactionCoordinatorShard, wanted: Filter, now_ms: int) -> list[ListedTransactionState]:
    return [
        ListedTransactionState(
            transactional_id=transactional_id,
            producer_id=metadata.producer_id,
            transaction_state=metadata.state.wire_name,
        )
        for transactional_id, metadata in state.items()
        if wanted.matches(transactional_id, metadata, now_ms)
    ]
