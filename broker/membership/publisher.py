"""Brings this node up to a new image: what follows the metadata, in one order (Kafka's `BrokerMetadataPublisher`).

`NodeMetadata` is what a node needs of the cluster's metadata, whether it decides on them itself or follows other
controllers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import structlog

from broker.membership.metadata_cache import MetadataCache
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.topic_partition import TopicPartition
from storage.folders.strays import FolderState

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
    from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

    from broker.membership.controller_port import Controller
    from controller.brokers import Registration
    from controller.quorum.metadata_log import MetadataLog


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
        """Tell all followers, even if one fails, which is logged: the image has changed for good."""
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


@dataclass(frozen=True, slots=True)
class Joining:
    """All that a node joins its cluster with.

    Attributes:
        previous_epoch: the broker epoch in which it was last shut down cleanly; -1 if it was not.
        min_insync_replicas: what a new cluster begins with.
    """

    registration: Registration
    previous_epoch: int
    min_insync_replicas: int


class NodeMetadata(Protocol):
    """One of the two: `StandaloneMetadata` or `FollowedMetadata`.

    Attributes:
        cache: has the image.
        publisher: tells this node's parts what has changed.
        folder: the folder of `log.dirs` with the metadata log, or the copy of it.
        before_snapshot: makes durable, off the loop, what a snapshot makes the node forget: that topics were deleted.
        on_failure: called once, with the reason, when the node cannot go on.
    """

    cache: MetadataCache
    publisher: MetadataPublisher
    folder: str
    before_snapshot: Callable[[], None]
    on_failure: Callable[[str], None]

    @property
    def log(self) -> MetadataLog | None:
        """The metadata log of this node; None if it is that of other nodes."""

    @property
    def port(self) -> Controller:
        """How changes are decided."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this run; -1 before it has one."""

    def folder_state(self, partition: TopicPartition, topic_id: UUID | None, closed_in: int) -> FolderState:
        """Whether a folder of that partition and topic id, if it has one, is a topic's."""

    def rise_above(self, former: MetadataImage) -> None:
        """Let what `join` writes lie above what clients know of an image that was replaced by an older one."""

    async def join(self, joining: Joining) -> None:
        """Register this run of the node; from then on it is in the image."""

    async def enter(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Return once the node may serve; everything in it follows the image already.

        `last` is what it asks the controllers before.
        """

    async def allocate_producer_ids(self) -> range:
        """The next block of producer ids."""

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The controller's answer. Raises PeerError if there is none, KafkaError if it is refused as a whole."""

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """The controller's answer. Raises PeerError if there is none, KafkaError if it is refused as a whole."""

    def problems(self) -> list[str]:
        """List the problems that an operator should know now, a sentence each."""

    async def retry(self) -> None:
        """Try again what failed for want of room; for a periodic job."""

    async def leave(self) -> None:
        """Let other nodes take over what this node leads, as it is to stop; it serves until this returns."""

    def stop_asking(self) -> None:
        """Ask other nodes for no decision any more, as the node serves no more; what waits for one fails."""

    async def close(self) -> bool:
        """End, as the node serves no more; return whether that went well."""
