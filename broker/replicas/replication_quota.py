"""Throttles of replication, for reassignments (KIP-73; Kafka's `ReplicationQuotaManager`).

How it works. A topic lists its throttled replicas, a broker has a rate for each side. What a leader sends to throttled
replicas, and what a follower gets into them, counts; while the rate is exceeded, replicas that are not in sync are left
out of fetches. Those in sync never are: they would fall out of the ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from metadata.configs import ResourceType
from timing.rate import SimpleRate, Windows

if TYPE_CHECKING:
    from collections.abc import Collection

    from broker.cluster.metadata_cache import MetadataCache
    from metadata.image import MetadataImage

UNLIMITED = 2**63 - 1
ALL = None
"""All partitions of a topic."""


class ReplicationQuota:
    """One side's throttle: `side` is `leader` or `follower`; `windows` are those over which its rate is measured."""

    def __init__(
        self, side: str, node_id: int, cache: MetadataCache, now_ms: Callable[[], float], windows: Windows
    ) -> None:
        self._rate_key = f"{side}.replication.throttled.rate"
        self._replicas_key = f"{side}.replication.throttled.replicas"
        self._node_id = node_id
        self._cache = cache
        self._now_ms = now_ms
        self._topics: dict[str, Collection[int] | None] = {}
        self._limit = UNLIMITED
        self._rate = SimpleRate(windows)

    def follow(self, image: MetadataImage, topics: Collection[str]) -> None:
        """Take over what is set for the broker and for these topics."""
        own, of_all = self._cache.broker_configs(self._node_id)
        self._limit = int(own.get(self._rate_key, of_all.get(self._rate_key, UNLIMITED)))
        for topic in topics:
            throttled = self._throttled(image.configs.of(ResourceType.TOPIC, topic).get(self._replicas_key, ""))
            if throttled is ALL or throttled:
                self._topics[topic] = throttled
            else:
                self._topics.pop(topic, None)

    def _throttled(self, value: str) -> Collection[int] | None:
        """The topic's partitions whose replica on this node is throttled, of `*` or partition:broker pairs."""
        if value.strip() == "*":
            return ALL
        pairs = [pair.strip().split(":") for pair in value.split(",") if pair.strip()]
        return frozenset(int(index) for index, broker in pairs if int(broker) == self._node_id)

    def is_throttled(self, topic: str, index: int) -> bool:
        if topic not in self._topics:
            return False
        throttled = self._topics[topic]
        return throttled is ALL or index in throttled

    @property
    def is_active(self) -> bool:
        """Whether anything is throttled at all."""
        return bool(self._topics)

    @property
    def is_exceeded(self) -> bool:
        rate, _ = self._rate.measure(int(self._now_ms()))
        return rate > self._limit

    def record(self, topic: str, index: int, size: int) -> None:
        """Count bytes, if that replica is throttled."""
        if self.is_throttled(topic, index):
            self._rate.record(size, int(self._now_ms()))

    def holds_back(self, topic: str, index: int, *, in_sync: bool) -> bool:
        """Whether the replica is to get nothing now."""
        return bool(self._topics) and not in_sync and self.is_throttled(topic, index) and self.is_exceeded
