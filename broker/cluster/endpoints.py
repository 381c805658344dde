"""Where brokers are reached, by a listener's name (Kafka's `MetadataCache.getAliveBrokerNode`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol.metadata.brokers import Endpoint


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
