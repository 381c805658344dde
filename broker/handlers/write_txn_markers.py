"""WriteTxnMarkers 1-2 (KIP-98, KIP-1228; Kafka's `KafkaApis.handleWriteTxnMarkersRequest`): writes the given markers.

Coordinators on other brokers send it to the leaders of a transaction's partitions; admins send it to end a transaction
that its coordinator does not know (KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

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
    KafkaError,
    NotCoordinator,
    UnknownServerError,
    UnknownTopicOrPartition,
)
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
        write = ctx.coordinators.transactions.markers.marker_writer(
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
                raise UnknownServerError  # this fails the whole request in Kafka
            try:
                if not online:
                    raise UnknownTopicOrPartition
                if marker.transaction_version < 0:
                    raise UnknownServerError  # as in Kafka
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
        return _response(codes)

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
