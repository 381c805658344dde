"""The metadata of a broker whose controllers are other nodes: followed, kept as a copy, and changed by asking.

Theory of operation. `open` reads this node's own copy, and catches up with the controllers, so that the folders of
partitions are judged by what the cluster agrees on now. `join` registers this run of the node, fenced, and follows
until the image has that registration. `enter` begins to follow for good, and returns when the controller has unfenced
the node: only then may it serve. `leave` lets the controller move the leaders away; `close` ends it all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest
from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

from broker.config.broker_config import BrokerConfig
from broker.config.controllers import controllers
from broker.membership.broker_lifecycle import BrokerLifecycle, Identity, Intervals, unserved
from broker.membership.controller_channel import ControllerChannel, ControllerQuorum
from broker.membership.controller_port import Controller
from broker.membership.forwarding_controller import ForwardingController
from broker.membership.metadata_cache import MetadataCache
from broker.membership.metadata_copy import MetadataCopy, ObserverIdentity
from broker.membership.metadata_observer import MetadataObserver
from broker.membership.publisher import Joining, MetadataPublisher
from broker.peers.call import entity_call
from broker.peers.client import PeerClients, PeerNetwork, PeerSettings, ask_versions
from controller.decision import Surroundings
from controller.quorum.metadata_batches import MetadataLogError
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.errors import type_by_code
from protocol.topic_partition import TopicPartition
from storage.folders.strays import FolderState
from storage.log.log_services import LogServices

SETUP_TIMEOUT_MS = 5_000
"""How long opening a connection to a controller may take."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """Which node of which cluster this is, and the ids of its folders.

    `offline` gives those that have failed, `cordoned` those that get no new replicas.
    """

    node_id: int
    cluster_id: str
    directories: Sequence[UUID]
    offline: Callable[[], Sequence[UUID]]
    cordoned: Callable[[], Sequence[UUID]] = tuple


class FollowedMetadata:
    """See the theory of operation above; and `broker.membership.publisher` for what a node uses of it.

    Attributes:
        quorum: which controller is the active one.
        observer: follows the metadata log.
        lifecycle: registration and heartbeats.
    """

    def __init__(
        self,
        services: LogServices,
        folder: str,
        who: Belonging,
        config: BrokerConfig,
        cache: MetadataCache,
        around: Surroundings,
        network: PeerNetwork,
    ) -> None:
        self.log = None
        self.cache = cache
        self.folder = folder
        self.publisher = MetadataPublisher(cache)
        self.before_snapshot: Callable[[], None] = lambda: None
        self._who = who
        self._intervals = Intervals(
            config.integer("broker.heartbeat.interval.ms"),
            config.integer("broker.session.timeout.ms"),
            config.integer("initial.broker.registration.timeout.ms"),
        )
        self._leaves_orderly = config.boolean("controlled.shutdown.enable")
        self._network = network
        self._socket_timeout_ms = config.integer("controller.socket.timeout.ms")
        self._retry_ms = config.integer("controller.quorum.retry.backoff.ms")
        self._fetch_timeout_ms = min(
            config.integer("controller.quorum.fetch.timeout.ms"), config.integer("controller.quorum.request.timeout.ms")
        )
        self._removed: set[UUID] = set()
        self._copy = MetadataCopy(services, folder)
        self.quorum = ControllerQuorum(controllers(config))
        self.observer = MetadataObserver(
            ObserverIdentity(who.node_id, who.cluster_id, who.directories[0]),
            self.quorum,
            self._clients("metadata", self._fetch_timeout_ms),
            network.clock,
            self._copy,
            self._publish,
            retry_ms=self._retry_ms,
        )
        self.cache.kraft_version = lambda: self.observer.kraft_version
        self.lifecycle = BrokerLifecycle(
            self.channel("heartbeat"),
            network.clock,
            self._intervals,
            lambda: self.observer.image.offset,
            who.offline,
            who.cordoned,
        )
        self._forwarding = ForwardingController(self.channel("forwarding"), around)
        self._alter_partition = self.channel("alter-partition")
        self._directories = self.channel("directory-assignments")

    # -- the start

    async def open(self) -> None:
        """Read the copy, and catch up with the controllers.

        Raises NoControllerError if there is none, MetadataLogError if the node cannot work with what the cluster has.
        """
        self._copy.before_snapshot = lambda: self.before_snapshot()  # noqa: PLW0108 (it is set later)
        self.observer.begin_with(await self._copy.read())
        self.cache.image = self.observer.image
        await self.observer.catch_up(timeout_ms=self._intervals.registration_ms)
        self._require_served()
        if self._who.node_id in self.cache.image.cluster.controllers:
            raise MetadataLogError(f"node.id {self._who.node_id} is that of a controller of this cluster.")

    def _require_served(self) -> None:
        complaints = unserved(self.cache.image)
        if complaints:
            raise MetadataLogError("; ".join(complaints))

    def rise_above(self, former: MetadataImage) -> None:
        """Raises RuntimeError: a node in a cluster cannot go back without the others."""
        raise RuntimeError("the metadata of a cluster do not go back with one of its nodes")

    async def join(self, joining: Joining) -> None:
        """See `NodeMetadata.join`. Raises RegistrationError, NoControllerError, MetadataLogError."""
        new = joining.registration
        identity = Identity(
            new.broker_id,
            self._who.cluster_id,
            new.incarnation_id,
            new.endpoints,
            new.rack,
            new.directories,
            joining.previous_epoch,
        )
        epoch = await self.observer.follow_during(self.lifecycle.register(identity))
        await self.observer.catch_up(epoch, timeout_ms=self._intervals.registration_ms)

    async def enter(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """See `NodeMetadata.enter`. Raises MetadataLogError if the log cannot be followed, as nobody unfences then."""
        self.observer.start()  # first, so that a failover is noticed
        if last is not None:
            await last()
        await self.observer.while_following(self.lifecycle.unfence())

    # -- at work

    @property
    def port(self) -> Controller:
        return self._forwarding

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.epoch

    @property
    def on_failure(self) -> Callable[[str], None]:
        return self.observer.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[str], None]) -> None:
        self.observer.on_failure = callback

    def problems(self) -> list[str]:
        """See `NodeMetadata.problems`."""
        silence_ms = self.lifecycle.silence_ms
        if silence_ms > self._intervals.session_ms:
            return [f"no controller has answered for {silence_ms / 1000:.0f} s: nothing in the cluster can be changed"]
        if self.lifecycle.is_fenced_again:
            return ["the controller has fenced this node, since it was silent for too long"]
        return []

    def channel(self, name: str) -> ControllerChannel:
        """A new channel to the active controller, with connections of its own; the caller closes it."""
        clients = self._clients(name, self._socket_timeout_ms)
        return ControllerChannel(self.quorum, clients, self._network.clock, self._socket_timeout_ms)

    def _clients(self, name: str, request_timeout_ms: float) -> PeerClients:
        settings = PeerSettings(
            f"broker-{self._who.node_id}-{name}", request_timeout_ms, min(request_timeout_ms, SETUP_TIMEOUT_MS)
        )
        prepare = partial(ask_versions, timeout_ms=request_timeout_ms)
        return PeerClients(settings, self._network, prepare)

    def folder_state(self, partition: TopicPartition, topic_id: UUID | None, closed_in: int = -1) -> FolderState:
        """See `NodeMetadata.folder_state`: only topics that were deleted since the copy was made are known as such."""
        if topic_id in self._removed:
            return FolderState.DELETED
        topic = self.cache.topic(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        hosted = topic is not None and known is not None and topic_id in (topic.id, None)
        here = known is not None and self._who.node_id in known.replicas
        return FolderState.HOSTED if hosted and here else FolderState.STRAY

    async def allocate_producer_ids(self) -> range:
        """The next block of producer ids. Raises KafkaError."""
        request = AllocateProducerIdsRequest(broker_id=self._who.node_id, broker_epoch=self.broker_epoch)
        answer = await self._forwarding.ask(request)
        error = type_by_code.get(answer.error_code)
        if error is not None:
            raise error()
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """See `NodeMetadata.alter_partition`."""
        answer: AlterPartitionResponse = await self._alter_partition.send(entity_call(request), self._socket_timeout_ms)
        return answer

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """See `NodeMetadata.assign_replicas_to_dirs`."""
        answer: AssignReplicasToDirsResponse = await self._directories.send(
            entity_call(request), self._socket_timeout_ms
        )
        return answer

    async def retry(self) -> None:
        """Return at once: the log is on the controllers, so nothing waits for room here."""

    async def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("topics"):
            self._removed.update(delta.topics.deleted)
        await self.publisher.publish(delta, image)

    # -- the end

    async def leave(self) -> None:
        """See `NodeMetadata.leave`."""
        if self._leaves_orderly:
            await self.lifecycle.shut_down()

    def stop_asking(self) -> None:
        """See `NodeMetadata.stop_asking`."""
        self._forwarding.close()
        self._alter_partition.close()
        self._directories.close()

    async def close(self) -> bool:
        """See `NodeMetadata.close`."""
        self.publisher.start(())
        self.stop_asking()
        await self.lifecycle.stop()
        await self.observer.stop()
        return True
