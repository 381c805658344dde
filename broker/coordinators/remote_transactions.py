"""What leaders here ask transaction coordinators elsewhere (`AddPartitionsToTxnManager`, KIP-890).

Before the first append of a transaction to a partition its coordinator is asked: to add the partition (transactions
V2), or whether the client has added it. One AddPartitionsToTxn request has the questions of many producers.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kio.schema.errors import ErrorCode

from broker.peers.call import entity_call
from broker.peers.client import PeerClient
from broker.peers.queues import BrokerQueues, Reach, Sent
from coordinator.runtime.outcome import ProducerEpoch
from protocol.errors import type_by_code
from protocol.topic_partition import PartitionKey, by_topic

FIRST_VERSION_BETWEEN_BROKERS = 4


class Question(NamedTuple):
    """Whether these partitions may be written to in the producer's transaction; `adds`: they are to be added to it."""

    transactional_id: str
    producer: ProducerEpoch
    partitions: tuple[PartitionKey, ...]
    adds: bool


_Sent = Sent[Question, frozenset[PartitionKey]]


class RemoteTransactions:
    """Asks coordinators elsewhere."""

    def __init__(self, reach: Reach) -> None:
        self.queues: BrokerQueues[Question, frozenset[PartitionKey]] = BrokerQueues(reach, _exchange)

    def ask(self, broker_id: int, question: Question) -> Future[frozenset[PartitionKey]]:
        """The partitions that are in the transaction; or the coordinator's error, NETWORK_EXCEPTION if none answers."""
        return self.queues.put(broker_id, question.transactional_id, question, question)


async def _exchange(client: PeerClient, sent: Sequence[_Sent]) -> None:
    questions = dict.fromkeys(each.what for each in sent)
    answer = await client.send(entity_call(_request(questions), lowest=FIRST_VERSION_BETWEEN_BROKERS))
    found = {result.transactional_id: _codes(result.topic_results) for result in answer.results_by_transaction}
    for each in sent:
        codes = found.get(each.what.transactional_id, {})
        _settle(each, {partition: codes.get(partition, answer.error_code) for partition in each.what.partitions})


def _request(questions: Collection[Question]) -> AddPartitionsToTxnRequest:
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


def _settle(asked: _Sent, codes: dict[PartitionKey, ErrorCode]) -> None:
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
