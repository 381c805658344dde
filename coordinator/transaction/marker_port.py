"""What a transaction's coordinator and the leaders of its partitions ask each other: end markers, and questions."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import NamedTuple, Protocol

from coordinator.runtime.outcome import ProducerEpoch
from protocol.topic_partition import PartitionKey


class EndMarker(NamedTuple):
    """A marker that ends a producer's transaction in a partition (KIP-98).

    `transaction_version` is that of the transaction: from 2 on, the marker has a later epoch than the records that it
    ends (KIP-1228).

    `records_epoch` of a commit: the epoch of the transaction's records. If the partition's open transaction has
    another, a power failure took something from one of the logs, and the decision is not about that one. None if an
    admin sends the marker, and for an abort, which suits any transaction whose end is unknown.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    records_epoch: int | None = None
    transaction_version: int = 0


class Question(NamedTuple):
    """Whether these partitions may be written to in the producer's transaction; `adds`: they are to be added to it."""

    transactional_id: str
    producer: ProducerEpoch
    partitions: tuple[PartitionKey, ...]
    adds: bool


WriteMarker = Callable[[str, int], Future[None] | None]


class MarkerPort(Protocol):
    """Writes end markers to the partitions' leaders."""

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """The function that writes the marker to a partition (topic, index): None if it is durable, else a future.

        Both raise KafkaError: UnknownTopicOrPartition if the partition no longer exists, InvalidProducerEpoch and
        TransactionCoordinatorFenced as the partition's log does, and others that are temporary.
        """
