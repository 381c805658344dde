"""Brings this node up to a new image: what follows the metadata, in one order (Kafka's `BrokerMetadataPublisher`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from broker.cluster.metadata_cache import MetadataCache
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage

logger = structlog.get_logger(__name__)

Prepare = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]
Follow = Callable[[MetadataDelta, MetadataImage], None]


@dataclass(frozen=True, slots=True)
class Follower:
    """A part of the node that follows the image.

    `prepare` does what takes time, such as making the logs of new partitions, while the image is still the old one.
    `follow` is called once the image is the new one.
    """

    name: str
    follow: Follow
    prepare: Prepare | None = None


class MetadataPublisher:
    """Tells the followers of each change, in their order, and changes the image between preparing and following.

    From the change of the image until the last follower was told nothing else runs, so that nobody ever sees a topic
    that this node cannot serve yet.
    """

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._followers: Sequence[Follower] = ()

    def start(self, followers: Sequence[Follower]) -> None:
        """Call `followers`, in this order, for every change from now on."""
        self._followers = followers

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A follower that fails is logged, and the others are told all the same: the image has changed for good."""
        for follower in self._followers:
            if follower.prepare is not None:
                with _logged(follower):
                    await follower.prepare(delta, image)
        self._cache.image = image
        for follower in self._followers:
            with _logged(follower):
                follower.follow(delta, image)


@contextmanager
def _logged(follower: Follower) -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.exception("unexpected error while metadata was published", part=follower.name)
