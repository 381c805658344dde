"""The port to the partitions that a transaction wrote to."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import NamedTuple, Protocol


class EndMarker(NamedTuple):
    """A marker that ends a producer's transaction in a partition (KIP-98).

    `bumped`: its epoch is newer than that of the transaction's records (KIP-890). A transaction that already has this
    epoch is a later one, of which the coordinator's log has lost everything; the marker must not end it.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    bumped: bool = False


WriteMarker = Callable[[str, int], Future[None] | None]


class MarkerPort(Protocol):
    """Writes end markers to the partitions' leaders."""

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        """The function that writes the marker to a partition (topic, index): None if it is durable, else a future.

        Both raise KafkaError: UnknownTopicOrPartition if the partition no longer exists, InvalidProducerEpoch and
        TransactionCoordinatorFenced as the partition's log does, and others that are temporary.
        """
