"""WriteTxnMarkers 1-2 (KIP-98, KIP-1228; Kafka's `KafkaApis.handleWriteTxnMarkersRequest`): writes the given markers.

Coordinators on other brokers send it to the leaders of a transaction's partitions; admins send it to end a transaction
that its coordinator does not know (KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)

from broker.network.answers import when_all_settled
from broker.request_context import RequestContext
from coordinator.transaction.marker_port import EndMarker
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey, by_topic
from storage.producers.producer_entry import NO_OFFSET

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

NOT_READY = (CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator)
"""Errors of the group coordinator that are sent as NOT_LEADER_OR_FOLLOWER, so that the client retries."""

NO_PRODUCER_EPOCH = -1
TRANSACTIONS_V2 = 2

Codes = dict[int, dict[PartitionKey, ErrorCode]]


def handle(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    codes: Codes = {}
    waiting: list[tuple[int, PartitionKey]] = []
    futures = []
    for one in request.markers:
        write = ctx.coordinators.transactions.markers.marker_writer(
            EndMarker(one.producer_id, one.producer_epoch, one.coordinator_epoch, one.transaction_result)
        )
        for partition in _partitions(one):
            online = ctx.replicas.online(*partition) is not None
            if _is_nobodys(one) and online:
                raise UnknownServerError  # this fails the whole request in Kafka
            try:
                if not online:
                    raise UnknownTopicOrPartition
                _check_epoch(ctx.replicas.online(*partition), one)
                written = write(*partition)
            except KafkaError as error:
                _note(codes, one.producer_id, partition, error)
                continue
            _note(codes, one.producer_id, partition, None)
            if written is not None:
                waiting.append((one.producer_id, partition))
                futures.append(written)

    def answer(results: Sequence[Any]) -> WriteTxnMarkersResponse:
        for (producer_id, partition), result in zip(waiting, results, strict=True):
            _note(codes, producer_id, partition, result)
        return _response(codes)

    return when_all_settled(futures, answer)


def _is_nobodys(marker: WritableTxnMarker) -> bool:
    return bool(marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH)


def _check_epoch(partition: Partition | None, marker: WritableTxnMarker) -> None:
    """From transaction version 2 on each transaction has an epoch of its own, which its marker raises.

    Raises InvalidProducerEpoch for one that does not; the same marker again is fine.
    """
    if marker.transaction_version < 0:
        raise UnknownServerError  # as in Kafka
    entry = None if partition is None else partition.log.producers.producers.get(marker.producer_id)
    if entry is None or marker.transaction_version < TRANSACTIONS_V2:
        return
    if marker.producer_epoch == entry.producer_epoch and entry.txn_first_offset != NO_OFFSET:
        raise InvalidProducerEpoch(
            f"The marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, that of its transaction."
        )


def _partitions(marker: WritableTxnMarker) -> list[PartitionKey]:
    """The marker's partitions; one that is named twice gets one marker, as in Kafka."""
    return list(dict.fromkeys((topic.name, index) for topic in marker.topics for index in topic.partition_indexes))


def _note(codes: Codes, producer_id: int, partition: PartitionKey, error: KafkaError | None) -> None:
    code = ErrorCode.none if error is None else error.code
    if isinstance(error, NOT_READY):
        code = ErrorCode.not_leader_or_follower
    codes.setdefault(producer_id, {})[partition] = code


def _response(codes: Codes) -> WriteTxnMarkersResponse:
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


def error_response(_ctx: RequestContext, request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    codes: Codes = {}
    for one in request.markers:
        codes[one.producer_id] = {}  # only the last of a producer's markers is answered
        for partition in _partitions(one):
            _note(codes, one.producer_id, partition, error)
    return _response(codes)
