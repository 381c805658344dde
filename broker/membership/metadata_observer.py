"""Follows the metadata log of the cluster's controllers as an observer (Kafka's `KafkaRaftClient`, `MetadataLoader`).

Theory of operation. One fetch follows the other, to the active controller if it is known, else to each configured one
in turn: whoever is asked says who leads. What an answer brings is one of four things. Records: those below the high
watermark are applied to the image, and what follows the image is told. A diverging epoch: what is not committed is
dropped. The id of a snapshot: the log no longer reaches back so far; the snapshot is fetched, and takes the place of
the image. An error: another controller leads, or none.

At the start `catch_up` fetches while nothing follows the image, and gives up when nothing more comes for
`initial.broker.registration.timeout.ms`; `follow_during` fetches while something else waits for the active controller;
from `start` on a task fetches, and never gives up. While a change is applied, which may take long, it is only looked
who leads: whoever waits for the active controller relies on a fetch that finds the next one. What cannot be gone on
from (records that this release does not know, another cluster, a log that has lost what was committed) ends the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog
from kio.schema.errors import ErrorCode

from broker.membership.controller_channel import ControllerQuorum, NoControllerError
from broker.membership.metadata_copy import (
    MOST_BYTES,
    Copied,
    FetchedLog,
    FetchPosition,
    MetadataCopy,
    ObserverIdentity,
    fetch,
    fetch_snapshot,
)
from broker.peers.call import PeerError
from broker.peers.client import PeerClient, PeerClients
from controller.quorum.metadata_batches import CommittedBatch, MetadataLogError
from controller.quorum.snapshots import SnapshotId
from metadata.delta import ImageLoader, MetadataDelta
from metadata.difference import delta_to
from metadata.image import MetadataImage
from timing.clock import Clock

logger = structlog.get_logger(__name__)

T = TypeVar("T")

MAX_WAIT_MS = 500
"""How long a controller holds a fetch back for which there is nothing (`KafkaRaftClient.MAX_FETCH_WAIT_MS`)."""

MOST_AT_ONCE = 1_000
"""Batches are published together while they have no more records than this; before the next ones the loop has other
turns. An answer of a megabyte has ten times as many."""

Publish = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]

_ANOTHER_LEADS = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.broker_not_available,
    }
)


class MetadataObserver:
    """See the theory of operation above.

    Attributes:
        image: the newest image that was published.
        high_watermark: the offset up to which the log is known to be committed; -1 before the first answer.
        on_failure: called once, with the reason, when the log cannot be followed any more.
    """

    def __init__(
        self,
        who: ObserverIdentity,
        quorum: ControllerQuorum,
        clients: PeerClients,
        clock: Clock,
        copy: MetadataCopy,
        publish: Publish,
        *,
        retry_ms: float,
    ) -> None:
        self.image = MetadataImage()
        self.high_watermark = -1
        self.on_failure: Callable[[str], None] = lambda reason: logger.error("metadata not followed", error=reason)
        self._who = who
        self._quorum = quorum
        self._clients = clients
        self._clock = clock
        self._copy = copy
        self._publish = publish
        self._retry_ms = retry_ms
        self._log = FetchedLog()
        self._loader = ImageLoader()
        self._log_start = 0
        self._advanced_ms = 0.0
        self._complaint = "no controller was asked yet"
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was fetched."""
        return self._log.end_offset

    @property
    def kraft_version(self) -> int:
        """The finalized level of `kraft.version`."""
        return self._log.kraft_version

    def begin_with(self, copied: Copied) -> None:
        """Go on from the node's own copy."""
        self.image = copied.image
        self._log = FetchedLog(copied.image.offset + 1, copied.image.epoch)
        self._log.quorum_records = {record.__class__.__name__: record for record in copied.quorum_records}
        self._loader = ImageLoader(copied.image)
        self._log_start = self._log.committed_end

    async def catch_up(self, offset: int = -1, *, timeout_ms: float) -> None:
        """Return once the image has all that was committed when the first answer came, and the record at `offset`.

        Raises NoControllerError if nothing new has come for `timeout_ms`; MetadataLogError.
        """
        self.high_watermark = -1
        self._advanced_ms = self._clock.monotonic_ms()
        while self.high_watermark < 0:
            await self._step_within(timeout_ms, max_wait_ms=0)
        target = max(self.high_watermark, offset + 1)
        if self._log.committed_end < target:
            logger.info("waiting for the cluster's metadata", offset=self._log.committed_end, wanted=target)
        while self._log.committed_end < target:
            await self._step_within(timeout_ms, MAX_WAIT_MS)

    async def _step_within(self, timeout_ms: float, max_wait_ms: int) -> None:
        """Fetch once. Raises NoControllerError if the last fetch that brought something is too long ago."""
        before = self.high_watermark, self._log.committed_end
        await self._step(max_wait_ms)
        now_ms = self._clock.monotonic_ms()
        if (self.high_watermark, self._log.committed_end) != before:
            self._advanced_ms = now_ms
        elif now_ms - self._advanced_ms > timeout_ms:
            raise NoControllerError(
                f"the metadata of the cluster are known up to offset {self._log.committed_end}, and no controller has "
                f"sent more within {timeout_ms:.0f} ms: {self._complaint}"
                if self.high_watermark >= 0
                else f"no controller has answered within {timeout_ms:.0f} ms: {self._complaint}"
            )

    async def follow_during(self, asking: Coroutine[Any, Any, T]) -> T:
        """The result of what waits for the active controller, fetching meanwhile: so a failover is noticed.

        Raises what `asking` does, MetadataLogError.
        """
        task = asyncio.ensure_future(asking)
        try:
            while not task.done():
                await self._step(MAX_WAIT_MS)
        finally:
            task.cancel()
        return task.result()

    def start(self) -> None:
        """Follow the log from now on."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="metadata-observer")

    async def while_following(self, waiting: Coroutine[Any, Any, T]) -> T:
        """The result of what comes only if the log is followed. Raises MetadataLogError when that ends."""
        assert self._task is not None
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait((task, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise MetadataLogError("The metadata of the cluster are not followed any more.")
        finally:
            task.cancel()
        return task.result()

    async def stop(self) -> None:
        """End following once what was fetched is applied, and keep a copy of the image."""
        self._stopping = True
        self._clients.close()
        for task in (self._task, self._saving):
            if task is not None:
                await asyncio.wait([task])
        await self._save(self.image)

    async def _follow(self) -> None:
        try:
            while not self._stopping:
                await self._step(MAX_WAIT_MS)
        except MetadataLogError as error:
            self.on_failure(error.message)
        except Exception as error:
            logger.exception("unexpected error while metadata was applied")
            self.on_failure(f"a change of the cluster's metadata could not be applied: {error!r}")

    # -- fetching

    async def _step(self, max_wait_ms: int) -> None:
        """Fetch once, and do what the answer says."""
        await self._ask(max_wait_ms, MOST_BYTES, self._take)

    async def _look_who_leads(self) -> None:
        """Fetch as little as there is, and take nothing of it: while a change is applied the active controller may be
        lost, and who waits for it must know the next one."""

        async def nothing(_client: PeerClient, _partition: Any) -> bool:
            return True

        await self._ask(0, 0, nothing)

    async def _ask(self, max_wait_ms: int, most_bytes: int, take: Callable[[PeerClient, Any], Awaitable[bool]]) -> None:
        """Fetch once, and let `take` have what the active controller answers; if it does not, look for another one."""
        active = self._quorum.active
        where = self._quorum.next_to_ask() if active is None else active
        client = self._clients.of(where.host, where.port)
        at = FetchPosition(self._log.end_offset, self._log.last_epoch, self._log_start, self.high_watermark)
        epoch = self._quorum.epoch or at.epoch  # after a start the copy alone knows one; Kafka refuses an older one
        try:
            answer = await client.send(fetch(self._who, epoch, at, max_wait_ms, most_bytes))
            partition = self._of_active(client, answer)
            handled = partition is not None and await take(client, partition)
        except PeerError as error:
            self._complain(str(error))
            handled = False
        except OSError as error:  # the copy cannot be written now
            self._complain(f"the metadata cannot be kept: {error}")
            handled = False
        if not handled and self._quorum.active is active:
            self._quorum.lost()
            await self._clock.sleep(self._retry_ms)

    def _of_active(self, client: PeerClient, answer: Any) -> Any | None:
        """Return the part of an answer about the log; None if it is not from the active controller."""
        if answer.error_code is ErrorCode.inconsistent_cluster_id:
            raise MetadataLogError(f"{client} is a controller of another cluster than {self._who.cluster_id}.")
        if answer.error_code is not ErrorCode.none or not answer.responses:
            self._complain(f"{client} answers {answer.error_code.name}")
            return None
        partition = answer.responses[0].partitions[0]
        self._note_leader(partition, answer.node_endpoints)
        if partition.error_code is not ErrorCode.none:
            if partition.error_code not in _ANOTHER_LEADS:
                self._complain(f"{client} answers {partition.error_code.name}")
            return None
        return partition

    async def _take(self, client: PeerClient, partition: Any) -> bool:
        """Take what was fetched; whether that was possible."""
        if partition.snapshot_id.end_offset >= 0:
            return await self._fetch_snapshot(client, SnapshotId(*_pair(partition.snapshot_id)))
        if partition.diverging_epoch.epoch >= 0:
            self._log.truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
            return True
        self._log.append(bytes(partition.records or b""))
        self.high_watermark = max(self.high_watermark, partition.high_watermark)
        await self._apply(len(partition.records or b""))
        return True

    def _note_leader(self, partition: Any, endpoints: Any) -> None:
        leader = partition.current_leader
        found = next(((each.host, each.port) for each in endpoints if each.node_id == leader.leader_id), None)
        self._quorum.elected(leader.leader_id, leader.leader_epoch, found)

    def _complain(self, complaint: str) -> None:
        """Log an error once, and again when it is another one."""
        if complaint != self._complaint and not self._stopping:
            logger.warning("metadata not fetched", error=complaint)
            self._complaint = complaint

    # -- applying

    async def _apply(self, size: int) -> None:
        last, records = None, 0
        for batch in self._log.take_committed(self.high_watermark):
            if last is not None and records + len(batch.records) > MOST_AT_ONCE:
                await self._publish_up_to(last)
                records = 0
            self._loader.load(batch.records)
            last, records = batch, records + len(batch.records)
        if last is None:
            return
        await self._publish_up_to(last)
        if self._copy.grown(size) and (self._saving is None or self._saving.done()) and not self._loader.in_transaction:
            self._saving = asyncio.create_task(self._save(self.image), name="metadata-snapshot")

    async def _publish_up_to(self, last: CommittedBatch) -> None:
        self._complaint = ""
        delta = self._loader.publish(last.last_offset, last.epoch, last.timestamp)
        await self._published(delta, self._loader.image)

    async def _published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        publishing = asyncio.ensure_future(self._publish(delta, image))
        try:
            while not await self._done_soon(publishing):
                await self._look_who_leads()
        finally:
            publishing.cancel()
        publishing.result()
        self.image = image

    async def _done_soon(self, work: asyncio.Future[None]) -> bool:
        """Whether the work is done within the time of a fetch."""
        pause = asyncio.ensure_future(self._clock.sleep(MAX_WAIT_MS))
        await asyncio.wait((work, pause), return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        return work.done()

    async def _fetch_snapshot(self, client: PeerClient, snapshot: SnapshotId) -> bool:
        """Fetch a whole snapshot, and let it take the place of the image."""
        logger.info("metadata snapshot is fetched", offset=snapshot.offset, epoch=snapshot.epoch)
        data = bytearray()
        size: int | None = None
        while True:
            answer = await client.send(fetch_snapshot(self._who, self._quorum.epoch, snapshot, len(data)))
            if answer.error_code is not ErrorCode.none or not answer.topics:
                self._complain(f"{client} answers {answer.error_code.name} for the snapshot {snapshot.file_name}")
                return False
            (part,) = answer.topics[0].partitions
            if part.error_code is not ErrorCode.none or part.position != len(data):
                self._complain(f"{client} answers {part.error_code.name} for the snapshot {snapshot.file_name}")
                return False
            if size is None:
                size = part.size
                await self._copy.require_room(snapshot, size)
            data += part.unaligned_records
            if part.size != size or len(data) > size:
                self._complain(
                    f"{client} said that the snapshot {snapshot.file_name} has {size} bytes, and now says {part.size}, "
                    f"of which {len(data)} came"
                )
                return False
            if len(data) == size:
                break
            if not part.unaligned_records:
                self._complain(f"{client} has sent {len(data)} of {part.size} bytes of the snapshot, and sends no more")
                return False
        copied = await self._copy.adopt(snapshot, bytes(data))
        before = self.image
        self.begin_with(copied)
        self.image = before  # until it is published
        await self._published(delta_to(before, copied.image), copied.image)
        return True

    async def _save(self, image: MetadataImage) -> None:
        if self._loader.in_transaction:
            return
        try:
            await self._copy.save(image, list(self._log.quorum_records.values()))
        except (OSError, MetadataLogError) as error:  # the controllers have everything
            logger.warning("copy of the metadata not written", error=str(error))


def _pair(snapshot_id: Any) -> tuple[int, int]:
    return snapshot_id.end_offset, snapshot_id.epoch
