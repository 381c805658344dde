"""The metadata of a node with its own log and its own controller; most often it is the only broker, too.

Theory of operation. `open` reads the log and makes the image. `lead` makes
the node the leader of its log, registers its broker and elects it; from then on the controller decides. `close` fences
the broker, as a controlled shutdown does. If there is no room for the log at the start, the node serves what it has and
refuses changes, and `lead` is tried again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from broker.membership.controller_port import Controller, OwnController
from broker.membership.publisher import Joining, MetadataPublisher
from controller import brokers
from controller.brokers import Registration
from controller.decision import Decision, Surroundings
from controller.local import LocalController
from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from metadata.delta import ImageLoader, MetadataDelta
from metadata.image import MetadataImage
from metadata.snapshot import records_of
from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.folders.strays import FolderState

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
    from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

    from broker.membership.metadata_cache import MetadataCache
    from storage.log.log_services import LogServices

logger = structlog.get_logger(__name__)

NEVER = -1


class StandaloneMetadata:
    """See the theory of operation above.

    Attributes:
        log: the metadata log.
        controller: decides on every change.
        publisher: tells this node's parts what has changed.
        is_new: there was nothing when it was opened, no record.
        folder: where the log lies.
        cache: has the image.
        before_snapshot: makes durable, off the loop, what a snapshot makes the log forget: that topics were deleted.
    """

    def __init__(
        self,
        services: LogServices,
        folder: str,
        log: MetadataLog,
        read: _Read,
        cache: MetadataCache,
        around: Surroundings,
    ) -> None:
        self.log = log
        self.publisher = MetadataPublisher(cache)
        self.controller = LocalController(log, read.image, self._publish, around, in_transaction=read.in_transaction)
        self.controller.on_published = self._published
        self.is_new = read.is_empty
        self.before_snapshot: Callable[[], None] = lambda: None
        self._services = services
        self.folder = folder
        self.cache = cache
        self._read = read
        self._registration: Registration | None = None
        self._min_isr = 1
        self._former: MetadataImage | None = None
        self._snapshotting: asyncio.Task[None] | None = None
        self._first = log.bootstrap if read.is_empty else ()
        cache.image = _after(read.image, self._first)
        cache.kraft_version = lambda: log.kraft_version

    @classmethod
    async def open(
        cls,
        services: LogServices,
        folder: str,
        node_id: int,
        directory_id: UUID,
        cache: MetadataCache,
        around: Surroundings,
        *,
        clean: bool = False,
        config: MetadataLogConfig | None = None,
    ) -> StandaloneMetadata:
        """Read the log in `folder`, the first of `log.dirs`; `clean`: it was closed by who used it last.

        Raises MetadataLogError, OSError.
        """
        # Its syncs wait for no other log's.
        services = replace(services, workers=services.workers.lane("metadata"))
        call = services.workers.call
        opening = partial(
            MetadataLog.open, services, folder, node_id, directory_id=directory_id, config=config, clean=clean
        )
        log = await call(opening)
        read = await call(partial(_read_all, log, node_id))
        return cls(services, folder, log, read, cache, around)

    @property
    def port(self) -> Controller:
        return OwnController(self.controller)

    @property
    def on_failure(self) -> Callable[[str], None]:
        return self.log.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[str], None]) -> None:
        self.log.on_failure = callback

    @property
    def broker_epoch(self) -> int:
        """The epoch of this run, or of the last one as long as this run is not in the log; -1 for none."""
        broker = self.controller.image.cluster.brokers.get(self.controller.around.node_id)
        return NEVER if broker is None else broker.epoch

    def folder_state(self, partition: TopicPartition, topic_id: UUID | None, closed_in: int = NEVER) -> FolderState:
        """Whether a folder of that partition and topic id, if it has one, is a topic's.

        `closed_in` is the broker epoch in which its folder of `log.dirs` was closed in good order. If the topic was not
        deleted after that, somebody has put the folder there since.
        """
        if topic_id is not None and self._read.removed.get(topic_id, NEVER) > closed_in:
            return FolderState.DELETED
        topic = self.cache.topic(partition.topic)
        hosted = topic is not None and partition.partition in topic.partitions and topic_id in (topic.id, None)
        return FolderState.HOSTED if hosted else FolderState.STRAY

    def rise_above(self, former: MetadataImage) -> None:
        """Let leader epochs and producer ids go on from those of `former`, which clients know; call it before `lead`.

        For a node whose folders got the contents of an earlier time.
        """
        self._former = former

    async def lead(self, registration: Registration, min_insync_replicas: int) -> None:
        """Register this node, and elect its broker if it is one.

        Raises MetadataLogError if the log cannot be written.
        """
        self._registration, self._min_isr = registration, min_insync_replicas
        try:
            await self._lead(registration)
        except NoRoomError as error:
            logger.warning("no room for the metadata log; changes are refused", error=error.message)
            self.controller.refusal = error
            self._register_for_now(registration)

    async def lead_stopped(self) -> None:
        """Make the log ready for changes by a tool while the node is stopped: it begins as the node would begin it.

        Raises MetadataLogError.
        """
        await self.log.lead()
        await self.controller.begin(self._beginning)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """See `NodeMetadata.alter_partition`."""
        from controller import alter_partition

        schema = self.controller.around.schema
        return await self.controller.submit(lambda image: alter_partition.decide(image, request, schema))

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """See `NodeMetadata.assign_replicas_to_dirs`."""
        from controller import assign_replicas

        schema = self.controller.around.schema
        return await self.controller.submit(lambda image: assign_replicas.decide(image, request, schema))

    def problems(self) -> list[str]:
        """None: problems of the log are those of its folder."""
        return []

    async def join(self, joining: Joining) -> None:
        """See `NodeMetadata.join`."""
        await self.lead(joining.registration, joining.min_insync_replicas)

    async def enter(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """See `NodeMetadata.enter`: no other node has to allow it."""
        if last is not None:
            await last()

    async def leave(self) -> None:
        """Return at once: no other node could take over."""

    async def retry(self) -> None:
        """Lead, if there was no room for it before; for a periodic job."""
        if self._registration is None:
            return
        try:
            await self._lead(self._registration)
        except NoRoomError:
            return
        logger.info("there is room for the metadata log again")

    async def allocate_producer_ids(self) -> range:
        """The next block of producer ids. Raises MetadataLogError."""
        from controller import producer_ids

        node_id = self.controller.around.node_id
        broker = self.cache.broker(node_id)
        epoch = -1 if broker is None else broker.epoch
        return await self.controller.submit(lambda image: producer_ids.decide(image, node_id, epoch))

    def stop_asking(self) -> None:
        """Return at once: this node decides itself."""

    async def close(self) -> bool:
        """Fence the broker and close the log; whether that went well. Nothing follows the image any more."""
        self.publisher.start(())
        node_id, schema = self.controller.around.node_id, self.controller.around.schema
        try:
            if self._registration is None:
                await self.controller.submit(lambda image: brokers.shut_down(image, schema, node_id))
            await self.controller.close()
            if self._snapshotting is not None:
                await asyncio.wait([self._snapshotting])
            await self.log.close()
        except MetadataLogError as error:  # as after a kill; the next start deals with it
            logger.warning("the broker could not be fenced", error=error.message)
            return False
        return True

    async def _lead(self, registration: Registration) -> None:
        if self.log.epoch < 0:
            await self.log.lead()
        # All are decided at once, one on the other, and share a sync.
        await asyncio.gather(*(self.controller.begin(step) for step in self._steps(registration)))
        self._registration = self.controller.refusal = None

    def _steps(self, registration: Registration) -> Sequence[Callable[[MetadataImage], Decision[Any]]]:
        """Yield the first records of this run: bootstrap records, where there are none yet, and the registration."""
        from controller import restoring

        schema = self.controller.around.schema
        begin: tuple[Callable[[MetadataImage], Decision[Any]], ...] = (
            self._beginning,
            lambda image: brokers.bootstrap(image, self._min_isr),
            lambda image: restoring.rise_above(image, self._former),
        )
        if not registration.is_broker:
            return (
                *begin,
                lambda image: brokers.shut_down(image, schema, registration.broker_id),
                lambda image: brokers.register_controller(registration),
            )
        return (
            *begin,
            lambda image: brokers.resign(image, schema, registration.broker_id),
            lambda image: brokers.register(image, registration, self.controller.next_offset),
            lambda image: brokers.elect(image, schema, registration),
        )

    def _beginning(self, image: MetadataImage) -> Decision[None]:
        return Decision([] if image.features else self._first, None)

    def _register_for_now(self, registration: Registration) -> None:
        """Let the image say what it will say once there is room: the node can serve, but nothing can change.

        Only the leader epochs stay: those that the log does not know yet might come again in the next run, of which
        clients could not tell these apart.
        """
        image = self.controller.image
        delta = MetadataDelta(image)
        for step in self._steps(registration):
            delta.replay_all(step(delta.apply(image.offset, image.epoch, image.timestamp_ms)).records)
        for topic in delta.topics.changed.values():
            if topic.before is not None:
                for index, partition in topic.changed.items():
                    known = topic.before.partitions[index].leader_epoch
                    topic.changed[index] = replace(partition, leader_epoch=known)
        self.cache.image = delta.apply(image.offset, image.epoch, image.timestamp_ms)

    async def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("topics"):
            self._read.removed |= dict.fromkeys(delta.topics.deleted, self.broker_epoch)
        await self.publisher.publish(delta, image)

    # -- snapshots

    def _published(self) -> None:
        """Begin a snapshot if it is time for one."""
        image = self.controller.image
        if self._snapshotting is not None and not self._snapshotting.done():
            return
        try:
            is_due = self.log.is_snapshot_due(image.offset + 1)
        except MetadataLogError as error:
            logger.warning("metadata snapshot not written", error=str(error))
            return
        if is_due:
            self._snapshotting = asyncio.create_task(self._write_snapshot(image), name="metadata-snapshot")

    async def _write_snapshot(self, image: MetadataImage) -> None:
        try:
            await self._services.workers.call(self.before_snapshot)
            await self.log.write_snapshot(image.offset + 1, image.epoch, image.timestamp_ms, records_of(image))
        except (OSError, KafkaStorage) as error:  # the log still has everything
            logger.warning("metadata snapshot not written", error=str(error))


class _Read:
    """The result of reading: the image, and the topics that the log deletes.

    `in_transaction`: the log ends within a metadata transaction.

    `removed` has the broker epoch in which each topic was deleted, by topic id. A log is empty also if this node once
    led it, but did not get to write a record.
    """

    def __init__(self, loader: ImageLoader, is_empty: bool, removed: dict[UUID, int]) -> None:
        self.image = loader.image
        self.in_transaction = loader.in_transaction
        self.is_empty = is_empty
        self.removed = removed


def _read_all(log: MetadataLog, node_id: int) -> _Read:
    """Everything that the log says; blocking."""
    loader = ImageLoader()
    removed: dict[UUID, int] = {}
    broker_epoch = 0
    is_empty = True
    for batch in log.batches():
        loader.load(batch.records)
        for record in batch.records:
            match record.__class__.__name__:
                case "RegisterBrokerRecord" if record.broker_id == node_id:
                    broker_epoch = record.broker_epoch
                case "RemoveTopicRecord":
                    removed[record.topic_id] = broker_epoch
        is_empty = is_empty and not batch.records
        last = batch
    if log.next_offset:
        loader.publish(log.next_offset - 1, last.epoch, last.timestamp)
    return _Read(loader, is_empty, removed)


def _after(image: MetadataImage, records: Sequence[Any]) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset, image.epoch, image.timestamp_ms)
