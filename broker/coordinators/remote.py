"""Transaction markers on their way to the leaders of their partitions (Kafka's `TransactionMarkerChannelManager`).

This node's own partitions get theirs directly. Those of other brokers go in WriteTxnMarkers requests, one queue for
each broker. Whatever goes wrong there is temporary for the coordinator, which asks again where the leader is: that the
broker does not know the partition, too, as its metadata may be older than this node's. A partition is gone only if it
is gone from this node's own image.

What leaders here ask transaction coordinators elsewhere (`AddPartitionsToTxnManager`, KIP-890).

Before the first append of a transaction to a partition its coordinator is asked: to add the partition (transactions
V2), or whether the client has added it. One AddPartitionsToTxn request has the questions of many producers.

Requests to share coordinators on other nodes (Kafka's `PersisterStateManager`): one partition in each.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.delete_share_group_state.v0 import DeleteShareGroupStateRequest
from kio.schema.delete_share_group_state.v0 import request as delete
from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0 import InitializeShareGroupStateRequest
from kio.schema.initialize_share_group_state.v0 import request as initialize
from kio.schema.read_share_group_state.v0 import ReadShareGroupStateRequest
from kio.schema.read_share_group_state.v0 import request as read
from kio.schema.read_share_group_state_summary.v1 import ReadShareGroupStateSummaryRequest
from kio.schema.read_share_group_state_summary.v1 import request as summary
from kio.schema.write_share_group_state.v1 import WriteShareGroupStateRequest
from kio.schema.write_share_group_state.v1 import request as write
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic

from broker.coordinators.transaction_coordinator import TransactionMarkers
from broker.membership.metadata_cache import MetadataCache
from broker.peers.call import PeerError, entity_call
from broker.peers.client import PeerClient
from broker.peers.queues import BrokerQueues, Reach, Sent
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.share.share_coordinator_shard import ShareWrite
from coordinator.transaction.marker_sender import EndMarker, WriteMarker
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue, StateBatch
from protocol.errors import (
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
    type_by_code,
)
from protocol.schema import Entity
from protocol.topic_partition import PartitionKey, by_topic

WITHOUT_TRANSACTION_VERSION = 1
"""The version of WriteTxnMarkers that goes to brokers before Kafka 4.4; they check the epoch less strictly."""


class _Marker(NamedTuple):
    """A marker for one partition of another broker."""

    marker: EndMarker
    partition: PartitionKey


_Sent = Sent[_Marker, None]


class RoutedMarkers:
    """Writes markers wherever the leaders are (`coordinator.transaction.marker_sender`)."""

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


FIRST_VERSION_BETWEEN_BROKERS = 4


class Question(NamedTuple):
    """Whether these partitions may be written to in the producer's transaction; `adds`: they are to be added to it."""

    transactional_id: str
    producer: ProducerEpoch
    partitions: tuple[PartitionKey, ...]
    adds: bool


_Sent_of_remote_transactions = Sent[Question, frozenset[PartitionKey]]


class RemoteTransactions:
    """Asks coordinators elsewhere."""

    def __init__(self, reach: Reach) -> None:
        self.queues: BrokerQueues[Question, frozenset[PartitionKey]] = BrokerQueues(
            reach, _exchange_of_remote_transactions
        )

    def ask(self, broker_id: int, question: Question) -> Future[frozenset[PartitionKey]]:
        """The partitions that are in the transaction; or the coordinator's error, NETWORK_EXCEPTION if none answers."""
        return self.queues.put(broker_id, question.transactional_id, question, question)


async def _exchange_of_remote_transactions(client: PeerClient, sent: Sequence[_Sent_of_remote_transactions]) -> None:
    questions = dict.fromkeys(each.what for each in sent)
    answer = await client.send(
        entity_call(_request_of_remote_transactions(questions), lowest=FIRST_VERSION_BETWEEN_BROKERS)
    )
    found = {result.transactional_id: _codes(result.topic_results) for result in answer.results_by_transaction}
    for each in sent:
        codes = found.get(each.what.transactional_id, {})
        _settle_of_remote_transactions(
            each, {partition: codes.get(partition, answer.error_code) for partition in each.what.partitions}
        )


def _request_of_remote_transactions(questions: Collection[Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer.producer_id,
                producer_epoch=question.producer.producer_epoch,
                verify_only=not question.adds,
                topics=tuple(
                    AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
                    for topic, indexes in by_topic(question.partitions).items()
                ),
            )
            for question in questions
        )
    )


def _codes(topics: Sequence[Any]) -> dict[PartitionKey, ErrorCode]:
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in topics
        for result in topic.results_by_partition
    }


def _settle_of_remote_transactions(asked: _Sent_of_remote_transactions, codes: dict[PartitionKey, ErrorCode]) -> None:
    """A partition that is not in the transaction has a code of its own; other errors are those of the transaction."""
    if asked.answer.done():
        return
    added = frozenset(partition for partition, code in codes.items() if code is ErrorCode.none)
    missing = ErrorCode.none if asked.what.adds else ErrorCode.transaction_abortable
    errors = [code for code in codes.values() if code not in (ErrorCode.none, missing)]
    if errors:
        asked.answer.set_exception(type_by_code[errors[0]]())
    else:
        asked.answer.set_result(added)


class RemoteStates:
    """The share coordinator on another node; every method raises the KafkaErrors that it answers.

    CoordinatorNotAvailable also stands for a node that does not answer.
    """

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        partition = initialize.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialize.InitializeStateData(topic_id=key.topic_id, partitions=(partition,))
        await self._ask(InitializeShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def write(self, key: SharePartitionKey, wanted: ShareWrite) -> None:
        partition = write.PartitionData(
            partition=key.partition,
            state_epoch=wanted.state_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.complete_count,
            state_batches=tuple(
                write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in wanted.batches
            ),
        )
        topic = write.WriteStateData(topic_id=key.topic_id, partitions=(partition,))
        await self._ask(WriteShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareSnapshotValue:
        partition = read.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = read.ReadStateData(topic_id=key.topic_id, partitions=(partition,))
        found = await self._ask(ReadShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in found.state_batches
        )
        return ShareSnapshotValue(0, found.state_epoch, leader_epoch, found.start_offset, 0, 0, batches)

    async def read_summary(self, key: SharePartitionKey) -> ShareSnapshotValue:
        partition = summary.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = summary.ReadStateSummaryData(topic_id=key.topic_id, partitions=(partition,))
        found = await self._ask(ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=(topic,)))
        complete_count = found.delivery_complete_count
        return ShareSnapshotValue(
            0, found.state_epoch, found.leader_epoch, found.start_offset, 0, 0, (), complete_count
        )

    async def delete(self, key: SharePartitionKey) -> None:
        topic = delete.DeleteStateData(
            topic_id=key.topic_id, partitions=(delete.PartitionData(partition=key.partition),)
        )
        await self._ask(DeleteShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def _ask(self, request: Entity) -> Any:
        """The result of the one partition."""
        try:
            answer = await self._client.send(entity_call(request))
        except PeerError as error:
            raise CoordinatorNotAvailable(str(error)) from error
        if not answer.results or not answer.results[0].partitions:
            raise CoordinatorNotAvailable("The share coordinator has not answered for the partition.")
        found = answer.results[0].partitions[0]
        if found.error_code is not ErrorCode.none:
            raise type_by_code[ErrorCode(found.error_code)](found.error_message)
        return found
