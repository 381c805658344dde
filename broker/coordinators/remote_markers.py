"""Transaction markers on their way to the leaders of their partitions (Kafka's `TransactionMarkerChannelManager`).

This node's own partitions get theirs directly. Those of other brokers go in WriteTxnMarkers requests, one queue for
each broker. Whatever goes wrong there is temporary for the coordinator, which asks again where the leader is: that the
broker does not know the partition, too, as its metadata may be older than this node's. A partition is gone only if it
is gone from this node's own image.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic

from broker.coordinators.transaction_markers import TransactionMarkers
from broker.membership.metadata_cache import MetadataCache
from broker.peers.call import entity_call
from broker.peers.client import PeerClient
from broker.peers.queues import BrokerQueues, Reach, Sent
from coordinator.transaction.marker_port import EndMarker, WriteMarker
from protocol.errors import LeaderNotAvailable, NotLeaderOrFollower, UnknownTopicOrPartition, type_by_code
from protocol.topic_partition import PartitionKey, by_topic

WITHOUT_TRANSACTION_VERSION = 1
"""The version of WriteTxnMarkers that goes to brokers before Kafka 4.4; they check the epoch less strictly."""


class _Marker(NamedTuple):
    """A marker for one partition of another broker."""

    marker: EndMarker
    partition: PartitionKey


_Sent = Sent[_Marker, None]


class RoutedMarkers:
    """Writes markers wherever the leaders are (`coordinator.transaction.marker_port`)."""

    def __init__(self, node_id: int, cache: MetadataCache, own: TransactionMarkers, reach: Reach) -> None:
        self._node_id = node_id
        self._cache = cache
        self._own = own
        self.queues: BrokerQueues[_Marker, None] = BrokerQueues(reach, _exchange)

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """See `MarkerPort.marker_writer`."""
        own = self._own.marker_writer(marker)

        def write(topic: str, index: int) -> Future[None] | None:
            known = self._cache.image.topics.get(topic)
            partition = None if known is None else known.partitions.get(index)
            if partition is None:
                raise UnknownTopicOrPartition
            if partition.leader == self._node_id:
                return own(topic, index)
            if not partition.has_leader:
                raise LeaderNotAvailable
            asked = _Marker(marker, (topic, index))
            return self.queues.put(partition.leader, marker.producer_id, marker, asked)

        return write


async def _exchange(client: PeerClient, sent: Sequence[_Sent]) -> None:
    waiting: dict[tuple[int, PartitionKey], list[_Sent]] = {}
    partitions: dict[EndMarker, list[PartitionKey]] = {}
    for each in sent:
        marker, partition = each.what
        waiting.setdefault((marker.producer_id, partition), []).append(each)
        partitions.setdefault(marker, []).append(partition)
    answer = await client.send(entity_call(_request(partitions), lowest=WITHOUT_TRANSACTION_VERSION))
    for of_producer in answer.markers:
        for topic in of_producer.topics:
            for result in topic.partitions:
                for each in waiting.get((of_producer.producer_id, (topic.name, result.partition_index)), ()):
                    _settle(each, result.error_code)


def _request(partitions: Mapping[EndMarker, Sequence[PartitionKey]]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=tuple(
                    WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(indexes))
                    for topic, indexes in by_topic(dict.fromkeys(keys)).items()
                ),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, keys in partitions.items()
        )
    )


def _settle(asked: _Sent, code: ErrorCode) -> None:
    if asked.answer.done():
        return
    if code is ErrorCode.none:
        asked.answer.set_result(None)
        return
    # The partition is in this node's image, so it is there, or will be known to be gone.
    is_unknown = code is ErrorCode.unknown_topic_or_partition
    asked.answer.set_exception(NotLeaderOrFollower() if is_unknown else type_by_code[code]())
