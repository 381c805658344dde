"""The door to the partitions that a transaction wrote to."""

from __future__ import annotations

from asyncio import Future
from typing import NamedTuple, Protocol


class EndMarker(NamedTuple):
    """What ends a producer's transaction in a partition (KIP-98)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


class MarkerPort(Protocol):
    """Writes end markers to the partitions' leaders."""

    def write_marker(self, topic: str, index: int, marker: EndMarker) -> Future[None] | None:
        """None once the marker is written for good, or a future of that.

        Both raise KafkaError: UnknownTopicOrPartition where the partition does not exist any more,
        InvalidProducerEpoch and TransactionCoordinatorFenced as the partition's log does, and others that pass.
        """
