"""The error that a coordinator's client gets for a failed append (Kafka's CoordinatorOperationExceptionHelper)."""

from __future__ import annotations

from protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorage,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    Timeout,
    UnknownServerError,
    UnknownTopicOrPartition,
)

_MEANING: tuple[tuple[tuple[type[KafkaError], ...], type[KafkaError]], ...] = (
    ((UnknownTopicOrPartition, NotEnoughReplicas, NotEnoughReplicasAfterAppend, Timeout), CoordinatorNotAvailable),
    ((NotLeaderOrFollower, KafkaStorage), NotCoordinator),
    ((MessageTooLarge, RecordBatchTooLarge), UnknownServerError),
)


def translate(error: KafkaError) -> KafkaError:
    """The coordinator's error for an error of the log."""
    for errors, meaning in _MEANING:
        if isinstance(error, errors):
            return meaning()
    return error
