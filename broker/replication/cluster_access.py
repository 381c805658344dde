"""How the replicas of a node reach the rest of its cluster, and how much of the network they may use.

A throttle of replication (KIP-73; Kafka's `ReplicationQuotaManager`) is for reassignments. A topic lists its throttled
replicas, a broker has a rate for each side. What a leader sends to throttled replicas, and what a follower gets into
them, counts; while the rate is exceeded, replicas that are not in sync are left out of fetches. Those in sync never
are: they would fall out of the ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from broker.peers.call import PeerUnreachableError
from metadata.configs import ResourceType
from timing.rate import SimpleRate, Windows

if TYPE_CHECKING:
    from collections.abc import Collection

    from broker.membership.metadata_cache import MetadataCache
    from broker.peers.call import Call
    from broker.replication.leading.alter_partition import AskController
    from metadata.image import MetadataImage

T = TypeVar("T")


class BrokerConnection(Protocol):
    """A connection to another broker (`broker.peers.client.PeerClient`)."""

    async def send(self, call: Call[T], timeout_ms: float | None = None) -> T:
        """The answer to a request. Raises PeerError."""
        ...

    def close(self) -> None:
        """End it; what is in flight fails."""


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """The settings of followers and leaders; times in ms, sizes in bytes."""

    lag_time_max_ms: int = 30_000
    fetchers: int = 1
    fetch_max_bytes: int = 1 << 20
    fetch_response_max_bytes: int = 10 << 20
    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 500
    fetch_backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000
    from_last_tiered: bool = False
    """An empty replica begins behind the last offset that is in remote storage."""
    rack_aware: bool = False
    """Consumers are sent to followers in their rack."""
    quota_windows: Windows = field(default_factory=lambda: Windows(11, 1_000))


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The services that a node needs to follow and to lead.

    `broker_epoch` gives that of this run; `ask_controller` sends an AlterPartition request to the active controller;
    `connect` makes a connection to the broker of that id, or None if its address is not known; `settings` gives the
    settings as they are now.
    """

    broker_epoch: Callable[[], int]
    ask_controller: AskController
    connect: Callable[[int], BrokerConnection | None]
    settings: Callable[[], ReplicationSettings]


async def _nobody(_request: Any) -> Any:
    raise PeerUnreachableError("this node is the only one of its cluster")


ALONE = ClusterAccess(lambda: -1, _nobody, lambda _: None, ReplicationSettings)
"""The access of a node that is alone in its cluster."""

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
