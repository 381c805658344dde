"""One partition's copies to remote storage, and their removal, by the leader (Kafka's `RemoteLogManager.RLMTask`s).

Theory of operation. Sealed segments are copied one after the other, as far as nothing in them can change any more: up
to the last stable offset, and what is flushed here. Each copy has an id of its own and goes through records of
`__remote_log_metadata`: COPY_STARTED, the objects, COPY_FINISHED. What fails in the middle is removed: DELETE_STARTED,
the objects, DELETE_FINISHED; if that fails too, or the node is killed, the next round finds it, as no leader epoch
refers to it. Copying and removing take turns (`turn`), segment by segment, so what is half copied when a removal has
its turn is a leftover.

Retention over all of the log removes the oldest remote segments. First the log's start rises, then the segment cannot
be found any more, then its objects go.

In a cluster the leader alone copies and removes. A copy that is under way when another broker begins to lead is
finished: its records are committed. Who leads leaves what another broker is copying or removing alone, until its time
is over. A follower only looks how far the log is copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import structlog

from broker.replication.partition import Role
from broker.tiering.segment_content import Copy, plan_copy, read_content
from protocol.errors import KafkaError
from protocol.remote_storage.segment import RemoteSegment, State, TopicIdPartition
from protocol.remote_storage.store import RemoteStoreError
from storage.tier.counts import Count
from storage.tier.remote_reader import within
from storage.tier.tiered_log import TieredLog

if TYPE_CHECKING:
    from uuid import UUID

    from broker.replication.partition import Partition
    from broker.tiering.remote_log_metadata import RemoteLogMetadata
    from protocol.remote_storage.store import RemoteStore
    from storage.log.unified_log import UnifiedLog
    from storage.segments.segment import LogSegment
    from storage.tier.remote_reader import RemoteReader
    from storage.workers import Workers
    from timing.clock import Clock

logger = structlog.get_logger(__name__)

DELETE_TIMEOUT_MS = 60_000
LEAST_COPY_TIMEOUT_MS = 120_000
SLOWEST_COPY = 64 * 1024
"""Bytes per second: a copy that is slower counts as one that makes no progress."""


class Remote(NamedTuple):
    """What all partitions share: the store and its threads, what is known of it, and how a copy waits for its quota."""

    node_id: int
    store: RemoteStore
    workers: Workers
    metadata: RemoteLogMetadata
    reader: RemoteReader
    clock: Clock
    new_id: Callable[[], UUID]
    before_copy: Callable[[int], float]
    """(bytes) -> milliseconds to wait before they are copied."""


class TieredPartition:
    """A partition that this node hosts, and whose topic is tiered.

    Attributes:
        tier: the log's.
        leads: whether this node leads it, as far as was told.
        ended: nothing more is copied; retention and the like are over too.
        error: why the last round failed; None if it did not.
    """

    def __init__(self, partition: Partition, remote: Remote) -> None:
        self.partition = partition
        self.id = TopicIdPartition(partition.topic, partition.topic_id, partition.index)
        self.turn = remote.metadata.turn(self.id)
        self.ended = False
        self.error: str | None = None
        self._remote = remote
        self.tier = TieredLog(partition.log, remote.metadata.of(self.id), remote.reader, partition.changed)
        partition.log.tier = self.tier
        self.leads = partition.role is Role.LEADER
        self._led_since = -1
        self._unwanted: list[RemoteSegment] = []

    @property
    def log(self) -> UnifiedLog:
        return self.partition.log

    @property
    def is_known(self) -> bool:
        """Whether it is known what is in remote storage."""
        return self.tier.known.done() and not self.ended

    @property
    def _is_over(self) -> bool:
        return not self.is_known or self.partition.role is not Role.LEADER

    def begin(self) -> None:
        """Take over what is known of remote storage, once that is known: the log's start, and what is copied."""
        self.look()
        if not self.tier.known.done():
            self.tier.known.set_result(None)
        self.take_role()

    def wait(self) -> None:
        """Let reads and rounds wait until `begin`: what is in remote storage is not known any more."""
        if self.tier.known.done():
            self.tier.known = asyncio.get_running_loop().create_future()

    def take_role(self) -> None:
        """Note whether this node leads; who begins to lead finds out where the log starts."""
        partition = self.partition
        self.leads = partition.role is Role.LEADER
        if self.leads and self.is_known and partition.led_since != self._led_since:
            self._led_since = partition.led_since
            self.look()
            epochs = [entry.epoch for entry in self.log.leader_epochs.entries]
            starts = (segment.start_offset for segment in self.tier.segments.readable(epochs))
            start = min((self.log.local_log_start_offset, *starts))
            self.log.increment_log_start_offset(min(start, partition.high_watermark))

    def look(self) -> None:
        """Find out how far the log is copied, by whomever."""
        self.tier.highest_offset = self.tier.find_highest()

    def end(self) -> None:
        """Copy and remove no more."""
        self.ended = True
        self.tier.end()

    # -- copying

    def pending(self) -> list[tuple[LogSegment, int]]:
        """The sealed segments that are not copied yet, each with the offset after its last, oldest first."""
        log = self.log
        begin = max(self.tier.highest_offset + 1, log.log_start_offset)
        bound = min(self.partition.last_stable_offset, log.flushed.offset)
        return [(one, end) for one, end in _sealed(log.segments) if end > begin and end <= bound]

    def due(self) -> list[tuple[LogSegment, int]]:
        """Those that are to be copied now, by `remote.copy.lag.ms` and `.bytes` (LogConfig.remoteCopyLag)."""
        log, config, now_ms = self.log, self.log.config, self._remote.clock.wall_ms()
        lag_ms = config.kept_here_ms if config.remote_copy_lag_ms < 0 else config.remote_copy_lag_ms
        lag_bytes = config.kept_here_bytes if config.remote_copy_lag_bytes < 0 else config.remote_copy_lag_bytes
        due = []
        newer = log.size - sum(one.size for one in log.segments if one.base_offset <= self.tier.highest_offset)
        for segment, end in self.pending():
            newer -= segment.size
            is_old = lag_ms >= 0 and now_ms - segment.largest_timestamp >= lag_ms
            if 0 in (lag_ms, lag_bytes) or is_old or (lag_bytes >= 0 and newer >= lag_bytes):
                due.append((segment, end))
        return due

    async def copy(self) -> None:
        """Copy what is due; what fails is tried again in the next round."""
        self.error = None
        self.look()
        try:
            while await self._copy_next():
                pass
        except (KafkaError, OSError, RemoteStoreError) as error:
            self._failed("copy", error)

    async def _copy_next(self) -> bool:
        """Copy the oldest segment that is due; whether there was one."""
        async with self.turn:
            if self._is_over or not self.log.config.copies_to_remote or not (due := self.due()):
                return False
            await self._copy(*due[0])
            return True

    async def _copy(self, segment: LogSegment, next_offset: int) -> None:
        remote, log = self._remote, self.log
        wait_ms = remote.before_copy(segment.size)
        if wait_ms > 0:
            await remote.clock.machine.sleep(wait_ms)
            if self._is_over or segment not in log.segments:
                return
        copy = plan_copy(log, segment, next_offset)
        file = segment.file.acquire()
        try:
            content = await remote.workers.call(partial(read_content, copy, file))
            is_empty = len(content.indexes) < 5
            started = self._new(copy, txn_index_empty=is_empty)
            await remote.metadata.put(started)
            try:
                work = remote.workers.call(partial(remote.store.copy, started, content))
                custom = await within(remote.clock.machine, _copy_timeout_ms(segment.size), work)
                if not await remote.metadata.put(self._later(started, State.COPY_FINISHED, custom)):
                    await _delete_objects(remote, started)
                    raise RemoteStoreError("another broker has removed the copy before it was finished")
            except BaseException:
                remote.reader.counts.add(Count.COPY_ERRORS, log.topic)
                raise
        finally:
            segment.file.release()
        remote.reader.counts.add(Count.COPY_REQUESTS, log.topic)
        remote.reader.counts.add(Count.COPY_BYTES, log.topic, segment.size)
        self.tier.highest_offset = max(self.tier.highest_offset, started.end_offset)
        logger.debug("segment copied", partition=log.name, start=segment.base_offset, end=started.end_offset)

    def _new(self, copy: Copy, *, txn_index_empty: bool) -> RemoteSegment:
        remote, segment = self._remote, copy.segment
        return RemoteSegment(
            self.id,
            remote.new_id(),
            segment.base_offset,
            copy.next_offset - 1,
            remote.node_id,
            segment.largest_timestamp,
            remote.clock.wall_ms(),
            copy.own_epochs,
            segment.size,
            txn_index_empty=txn_index_empty,
        )

    def _later(self, segment: RemoteSegment, state: State, custom: bytes | None = None) -> RemoteSegment:
        remote = self._remote
        return segment.with_state(state, broker_id=remote.node_id, now_ms=remote.clock.wall_ms(), custom=custom)

    # -- removing

    async def expire(self) -> None:
        """Remove what is left over, what lies below the log's start, and what retention does not keep."""
        try:
            async with self.turn:
                if self._is_over:
                    return
                self._raise_log_start()
                self._unwanted = list(self._find_unwanted())
            await delete_segments(self._remote, self._unwanted)
        except (KafkaError, OSError, RemoteStoreError) as error:
            self._failed("removal", error)

    @property
    def unwanted(self) -> list[RemoteSegment]:
        """What the last round was to remove, and is still there."""
        return [one for one in self._unwanted if self.tier.segments.get(one.id) is not None]

    def _raise_log_start(self) -> None:
        """Let the log start behind the oldest segments that breach `retention.ms` or `.bytes`."""
        log, config = self.log, self.log.config
        if not config.delete or max(config.retention_ms, config.retention_bytes) < 0:
            return
        left = 0
        if config.retention_bytes >= 0:
            only_here = sum(one.size for one in log.segments if one.base_offset > self.tier.highest_offset)
            left = only_here + sum(segment.size for segment in self.tier.readable())
        now_ms = self._remote.clock.wall_ms()
        for segment in self.tier.readable():
            too_old = 0 <= config.retention_ms <= now_ms - segment.max_timestamp
            too_large = 0 <= config.retention_bytes <= left - segment.size
            if segment.end_offset >= log.log_start_offset and not too_old and not too_large:
                break
            left -= segment.size
            log.increment_log_start_offset(min(segment.end_offset + 1, self.partition.high_watermark))

    def _find_unwanted(self) -> Iterator[RemoteSegment]:
        """What nobody reads any more, except for what another broker is at work on."""
        first_epoch = next((entry.epoch for entry in self.log.leader_epochs.entries), -1)
        for segment in self.tier.segments.unwanted(self.log.log_start_offset, first_epoch):
            if not self._is_at_work_elsewhere(segment):
                yield segment

    def _is_at_work_elsewhere(self, segment: RemoteSegment) -> bool:
        """Whether another broker may be copying or removing a segment: who has led before, say."""
        if segment.state is State.COPY_FINISHED or segment.broker_id == self._remote.node_id:
            return False
        timeout_ms = _copy_timeout_ms(segment.size) if segment.state is State.COPY_STARTED else DELETE_TIMEOUT_MS
        return self._remote.clock.wall_ms() - segment.event_timestamp < timeout_ms

    def _failed(self, what: str, error: Exception) -> None:
        self.error = str(error)
        logger.warning(f"{what} in remote storage failed", partition=self.log.name, error=str(error))


def _copy_timeout_ms(size: int) -> int:
    return max(LEAST_COPY_TIMEOUT_MS, size * 1000 // SLOWEST_COPY)


def _sealed(segments: Iterable[LogSegment]) -> Iterator[tuple[LogSegment, int]]:
    """Each segment but the last, with the base offset of the one after it."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset


async def delete_segments(remote: Remote, segments: list[RemoteSegment]) -> None:
    """Remove segments from the store, each in a turn. Raises KafkaError or RemoteStoreError, after trying all."""
    first: Exception | None = None
    for segment in segments:
        try:
            async with remote.metadata.turn(segment.partition):
                await _delete_segment(remote, segment)
        except (KafkaError, RemoteStoreError) as error:
            remote.reader.counts.add(Count.DELETE_ERRORS, segment.partition.topic)
            first = first or error
    if first is not None:
        raise first


async def _delete_segment(remote: Remote, segment: RemoteSegment) -> None:
    def later(state: State) -> RemoteSegment:
        return segment.with_state(state, broker_id=remote.node_id, now_ms=remote.clock.wall_ms())

    if segment.state is not State.DELETE_STARTED:
        await remote.metadata.put(later(State.DELETE_STARTED))
    await _delete_objects(remote, segment)
    await remote.metadata.put(later(State.DELETE_FINISHED))
    remote.reader.counts.add(Count.DELETE_REQUESTS, segment.partition.topic)


async def _delete_objects(remote: Remote, segment: RemoteSegment) -> None:
    await within(remote.clock.machine, DELETE_TIMEOUT_MS, remote.workers.call(partial(remote.store.delete, segment)))
