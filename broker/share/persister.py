"""Where the state of share partitions is kept: the share coordinator, here or on another node (Kafka's `Persister`)."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)


class Persister(Protocol):
    """Requests to the share coordinator; the futures have KafkaErrors of it, and of finding it."""

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Future[ShareSnapshotValue]:
        """The state as it was last persisted; fences leaders of older epochs."""

    def write(self, key: SharePartitionKey, wanted: ShareWrite) -> Future[None]:
        """Done when the state is durable."""


def for_member(error: KafkaError) -> KafkaError:
    """What a member is told of an error of the share coordinator (Kafka's `SharePartition.fetchPersisterError`)."""
    match error:
        case NotCoordinator() | CoordinatorNotAvailable() | CoordinatorLoadInProgress():
            return CoordinatorNotAvailable(error.message)
        case FencedLeaderEpoch() | FencedStateEpoch():
            return NotLeaderOrFollower(error.message)
        case GroupIdNotFound() | UnknownTopicOrPartition() | NotLeaderOrFollower():
            return error
        case _:
            return UnknownServerError(error.message)
