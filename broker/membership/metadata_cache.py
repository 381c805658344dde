"""The newest published image, and where it says that brokers are reached (Kafka's `MetadataCache`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from uuid import UUID

from metadata.brokers import BrokerRegistration
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import EMPTY, MetadataImage
from metadata.maps import Map
from metadata.settings import KRAFT_VERSION
from metadata.topics import TopicImage
from protocol.metadata.brokers import Endpoint


class MetadataCache:
    """`image` is replaced as a whole; who looks at more than one thing of it keeps the image that it began with.

    `kraft_version` gives the finalized level of that feature, which is in control records of the metadata log: no image
    has them.
    """

    __slots__ = ("image", "kraft_version")

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        self.kraft_version: Callable[[], int] = lambda: 0

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.get(name)

    def topic_by_id(self, topic_id: UUID | None) -> TopicImage | None:
        return self.image.topics.by_id(topic_id)

    def broker(self, node_id: int) -> BrokerRegistration | None:
        return self.image.cluster.brokers.get(node_id)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the configurations that are set for a topic."""
        return self.image.configs.of(ResourceType.TOPIC, name)

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 if it is not finalized."""
        return self.image.features.get(name, 0)

    def finalized_features(self, image: MetadataImage) -> dict[str, int]:
        """The level of each finalized feature, by name, as clients are told: level 0 is not finalized."""
        levels = {**image.features, KRAFT_VERSION: self.kraft_version()}
        return {name: levels[name] for name in sorted(levels) if levels[name]}

    def broker_configs(self, node_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the configurations that are set for one broker, and for the cluster."""
        configs = self.image.configs
        return configs.of(ResourceType.BROKER, str(node_id)), configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)


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
