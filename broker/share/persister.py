"""Where the state of share partitions is kept: the share coordinator, here or on another node (Kafka's `Persister`)."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue


class Persister(Protocol):
    """Requests to the share coordinator; the futures have KafkaErrors of it, and of finding it."""

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Future[ShareSnapshotValue]:
        """The state as it was last persisted; fences leaders of older epochs."""

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Future[None]:
        """Done when the state is durable."""
