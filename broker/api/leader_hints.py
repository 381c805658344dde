"""Where the leader is, for clients that asked another node (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker.membership.metadata_cache import endpoint_of
from metadata.image import MetadataImage
from protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from protocol.produce_fetch.parts import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint


def leader_of(image: MetadataImage, topic: str | None, index: int) -> LeaderIdAndEpoch:
    """A partition's leader and its epoch; unknown if there is no such partition."""
    known = None if topic is None else image.topics.get(topic)
    found = None if known is None else known.partitions.get(index)
    return UNKNOWN_LEADER if found is None else LeaderIdAndEpoch(found.leader, found.leader_epoch)


def leader_to_ask(image: MetadataImage, place: tuple[UUID, int], error: KafkaError | None) -> LeaderIdAndEpoch | None:
    """The leader of a partition, by topic id and number, that this node does not lead; None for any other error."""
    if not isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return None
    topic = image.topics.by_id(place[0])
    return leader_of(image, None if topic is None else topic.name, place[1])


def endpoints_of(
    image: MetadataImage, leaders: Iterable[LeaderIdAndEpoch], listener_name: str
) -> tuple[NodeEndpoint, ...]:
    """The addresses of these leaders, each once, as far as they have that listener."""
    found = []
    for leader_id in {leader.leader_id for leader in leaders}:
        endpoint = endpoint_of(image, leader_id, listener_name)
        if endpoint is not None:
            rack = image.cluster.brokers[leader_id].rack
            found.append(NodeEndpoint(leader_id, endpoint.host, endpoint.port, rack))
    return tuple(found)
