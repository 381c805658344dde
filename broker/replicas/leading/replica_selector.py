"""Which replica a consumer should read from (KIP-392; Kafka's `ReplicaSelector` and `RackAwareReplicaSelector`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.replicas.leading.leader_state import LeaderState
    from metadata.image import MetadataImage


class ConsumerPlace(NamedTuple):
    """Where a consumer is: its rack, and the listener that it uses."""

    rack: str
    listener: str


def preferred_replica(
    image: MetadataImage, leader: int, replicas: LeaderState, offset: int, consumer: ConsumerPlace
) -> int | None:
    """The in-sync follower in the consumer's rack that has `offset` and is furthest; None if it is to read here.

    That is also so if the leader itself is in that rack.
    """
    brokers = image.cluster.brokers
    if leader in brokers and brokers[leader].rack == consumer.rack:
        return None
    candidates = []
    for replica, follower in replicas.followers.items():
        broker = brokers.get(replica)
        if broker is None or broker.fenced or broker.rack != consumer.rack or consumer.listener not in broker.listeners:
            continue
        if replica in replicas.in_sync.committed and follower.log_start_offset <= offset <= follower.log_end_offset:
            candidates.append((follower.log_end_offset, follower.caught_up_ms, replica))
    return max(candidates)[2] if candidates else None
