"""Where brokers are reached, by a listener's name (Kafka's `MetadataCache.getAliveBrokerNode`).

Where the leader is, for clients that asked another node (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from uuid import UUID

from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower
from protocol.metadata.brokers import Endpoint
from protocol.produce_fetch.parts import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint


def endpoint_of(image: MetadataImage, node_id: int, listener_name: str) -> Endpoint | None:
    """The endpoint of a broker that is not fenced; None if it has no such listener."""
    broker = image.cluster.brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.listeners.get(listener_name)


def alive(image: MetadataImage, listener_name: str) -> Iterator[tuple[BrokerRegistration, Endpoint]]:
    """The brokers that are not fenced and have that listener, by id."""
    for broker in image.cluster.alive():
        endpoint = broker.listeners.get(listener_name)
        if endpoint is not None:
            yield broker, endpoint


def alive_ids(image: MetadataImage, listener_name: str) -> frozenset[int]:
    """The ids of these brokers."""
    return _alive_ids(image.cluster.brokers, listener_name)


@lru_cache(maxsize=16)
def _alive_ids(brokers: Map[int, BrokerRegistration], listener_name: str) -> frozenset[int]:
    return frozenset(
        broker.id for broker in brokers.values() if not broker.fenced and listener_name in broker.listeners
    )


def controller_id(image: MetadataImage) -> int:
    """The broker that clients are told to ask for changes: any that is alive will do, -1 if there is none (KIP-590)."""
    return next((broker.id for broker in image.cluster.alive()), -1)


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
