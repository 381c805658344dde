"""Requests of this node's coordinators and leaders to those of other brokers.

Three kinds: markers that end transactions, to leaders of partitions; questions about transactions, to their
coordinators; and the states of share partitions, to share coordinators. Imported when the first of them is sent: a node
alone sends none.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Mapping, Sequence
from typing import Any

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

from broker.peers.call import PeerError, entity_call
from broker.peers.client import PeerClient
from broker.peers.queues import Sent
from coordinator.share.share_coordinator_shard import ShareWrite
from coordinator.transaction.marker_sender import EndMarker, Question
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue, StateBatch
from protocol.errors import (
    CoordinatorNotAvailable,
    NotLeaderOrFollower,
    type_by_code,
)
from protocol.schema import Entity
from protocol.topic_partition import PartitionKey, by_topic

FIRST_VERSION_BETWEEN_BROKERS = 4
"""Of AddPartitionsToTxn: one request has the questions of many producers."""

WITHOUT_TRANSACTION_VERSION = 1
"""The version of WriteTxnMarkers that goes to brokers before Kafka 4.4; they check the epoch less strictly."""


Markers = Sequence[Sent[tuple[EndMarker, PartitionKey], None]]
Questions = Sequence[Sent[Question, frozenset[PartitionKey]]]


# -- end markers, to leaders of partitions (Kafka's `TransactionMarkerChannelManager`)


async def send_markers(client: PeerClient, sent: Markers) -> None:
    """Send one WriteTxnMarkers request, and set the answers."""
    waiting: dict[tuple[int, PartitionKey], list[Sent[tuple[EndMarker, PartitionKey], None]]] = {}
    partitions: dict[EndMarker, list[PartitionKey]] = {}
    for each in sent:
        marker, partition = each.what
        waiting.setdefault((marker.producer_id, partition), []).append(each)
        partitions.setdefault(marker, []).append(partition)
    answer = await client.send(entity_call(_markers_request(partitions), lowest=WITHOUT_TRANSACTION_VERSION))
    for of_producer in answer.markers:
        for topic in of_producer.topics:
            for result in topic.partitions:
                for each in waiting.get((of_producer.producer_id, (topic.name, result.partition_index)), ()):
                    _answer_marker(each.answer, result.error_code)


def _markers_request(partitions: Mapping[EndMarker, Sequence[PartitionKey]]) -> WriteTxnMarkersRequest:
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


def _answer_marker(answer: Future[None], code: ErrorCode) -> None:
    """Answer a marker: whatever goes wrong is temporary for the coordinator, which asks again where the leader is."""
    if answer.done():
        return
    if code is ErrorCode.none:
        answer.set_result(None)
        return
    # The partition is in this node's image, so it is there, or will be known to be gone: the leader's may be older.
    is_unknown = code is ErrorCode.unknown_topic_or_partition
    answer.set_exception(NotLeaderOrFollower() if is_unknown else type_by_code[code]())


# -- questions about transactions, to their coordinators (`AddPartitionsToTxnManager`, KIP-890)


async def send_questions(client: PeerClient, sent: Questions) -> None:
    """Send one AddPartitionsToTxn request, and set the answers."""
    questions = dict.fromkeys(each.what for each in sent)
    answer = await client.send(entity_call(_questions_request(questions), lowest=FIRST_VERSION_BETWEEN_BROKERS))
    by_id = {result.transactional_id: _codes(result.topic_results) for result in answer.results_by_transaction}
    for each in sent:
        codes = by_id.get(each.what.transactional_id, {})
        by_partition = {partition: codes.get(partition, answer.error_code) for partition in each.what.partitions}
        _answer_question(each.answer, each.what.adds, by_partition)


def _questions_request(questions: Collection[Question]) -> AddPartitionsToTxnRequest:
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


def _answer_question(
    answer: Future[frozenset[PartitionKey]], adds: bool, codes: Mapping[PartitionKey, ErrorCode]
) -> None:
    """Answer: a partition that is not in the transaction has its own code; others are those of the transaction."""
    if answer.done():
        return
    added = frozenset(partition for partition, code in codes.items() if code is ErrorCode.none)
    missing = ErrorCode.none if adds else ErrorCode.transaction_abortable
    errors = [code for code in codes.values() if code not in (ErrorCode.none, missing)]
    if errors:
        answer.set_exception(type_by_code[errors[0]]())
    else:
        answer.set_result(added)


# -- states of share partitions, to share coordinators (Kafka's `PersisterStateManager`)


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
        result = await self._ask(ReadShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in result.state_batches
        )
        return ShareSnapshotValue(0, result.state_epoch, leader_epoch, result.start_offset, 0, 0, batches)

    async def read_summary(self, key: SharePartitionKey) -> ShareSnapshotValue | None:
        partition = summary.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = summary.ReadStateSummaryData(topic_id=key.topic_id, partitions=(partition,))
        result = await self._ask(ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=(topic,)))
        complete_count = result.delivery_complete_count
        return ShareSnapshotValue(
            0, result.state_epoch, result.leader_epoch, result.start_offset, 0, 0, (), complete_count
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
        result = answer.results[0].partitions[0]
        if result.error_code is not ErrorCode.none:
            raise type_by_code[ErrorCode(result.error_code)](result.error_message)
        return result
