"""Fetches from one leader what some partitions of this node follow (Kafka's `ReplicaFetcherThread`).

Theory of operation. One request is out at a time, for all partitions that are ready; the leader holds it back until
there is something. What comes is appended; the next request starts at the logs' new ends, which tells the leader how
far this node is. A partition's answer counts only if the partition still follows this leader in the epoch that was
asked with, and its log still ends where it was asked from.

| answer for a partition          | what is done                                                                  |
| ------------------------------- | ----------------------------------------------------------------------------- |
| records, or nothing new         | append them; take over high watermark and log start                           |
| a diverging epoch               | truncate to where the logs may be the same, and fetch from there              |
| OFFSET_OUT_OF_RANGE             | ask for the leader's offsets: truncate to its end, or begin anew at its start |
| OFFSET_MOVED_TO_TIERED_STORAGE  | begin anew where the leader's own files begin (`tier_follower`)                |
| any other error, or bad records | leave the partition alone for `replica.fetch.backoff.ms`                      |
| none at all: no connection      | leave all alone for that time, and begin a new session                        |

Errors such as UNKNOWN_LEADER_EPOCH pass when both nodes have the same image.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from kio.schema.errors import ErrorCode

from broker.peers.call import Call, PeerError
from broker.replication.following import follower_log
from broker.replication.following.followed import FetcherContext, Followed, NotToldError
from broker.replication.following.follower_log import FollowerFetchSession, Key, fetch_call, offset_to_truncate_to
from broker.replication.partition import Partition, do_nothing
from protocol.errors import KafkaError, KafkaStorage
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest
from protocol.produce_fetch.fetch_response import NO_EPOCH, FetchPartitionResponse, FetchResponse
from storage.log.follower_append import Truncation, begins_anew

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from broker.replication.cluster_access import BrokerConnection, ReplicationSettings
    from broker.replication.following.leaders_offsets import LeadersOffsets

logger = structlog.get_logger(__name__)

BATCHES_AT_A_TIME = 200
"""The batches of a partition that are appended before the loop gets a turn."""
TURN_MS = 5.0
"""After so much work with an answer of many partitions the loop gets a turn too."""

SHORT_WAIT_MS = 50
"""The leader holds no fetch back for longer while a partition is begun anew: it answers a connection's requests one
after the other, and where its files begin may be no longer true when the records from there are asked for."""

UNKNOWN_SESSION = int(ErrorCode.fetch_session_id_not_found)
OUT_OF_RANGE = int(ErrorCode.offset_out_of_range)
IN_REMOTE_STORAGE = int(ErrorCode.offset_moved_to_tiered_storage)


class Fetcher:
    """See the theory of operation above. `number` tells the fetchers of one leader apart."""

    def __init__(self, context: FetcherContext, leader: int, number: int) -> None:
        self.leader = leader
        self.number = number
        self.followed: dict[Key, Followed] = {}
        self._context = context
        self._clock = context.clock.machine
        self._session = FollowerFetchSession()
        self._peer: BrokerConnection | None = None
        self._changed = asyncio.Event()
        self._says = True  # of failures one after the other only the first is worth a line
        self._task = asyncio.ensure_future(self._run())
        self._beginning: set[asyncio.Task[None]] = set()

    def add(self, partition: Partition) -> None:
        """Fetch the partition in its present leader epoch."""
        key = (partition.topic_id, partition.index)
        self.followed[key] = Followed(partition, partition.leader_epoch)
        partition.wake_fetcher = self._changed.set
        self._changed.set()

    def is_following(self, partition: Partition) -> bool:
        """Whether it fetches the partition from its present leader, in its present epoch."""
        log = self.followed.get((partition.topic_id, partition.index))
        return log is not None and log.partition is partition and log.is_current and partition.leader_id == self.leader

    def remove(self, partition: Partition) -> None:
        partition.wake_fetcher = do_nothing
        self.followed.pop((partition.topic_id, partition.index), None)
        self._changed.set()  # the others may wait for its flush alone

    async def stop(self) -> None:
        """End the fetcher; an append that has begun is whole."""
        for followed in self.followed.values():
            followed.partition.wake_fetcher = do_nothing
        self.followed.clear()
        tasks = (self._task, *self._beginning)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    # -- fetching

    async def _run(self) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            wanted = self._wanted(now_ms)
            if not wanted:
                await self._until_there_is_something(now_ms)
                continue
            try:
                await self._cut_off_unknown(wanted.values())
                await self._fetch(wanted)
            except PeerError as error:
                await self._pause(error)
            except Exception:
                logger.exception("unexpected error of a fetcher", leader=self.leader)
                await self._pause(None)

    async def _pause(self, error: PeerError | None) -> None:
        if error is not None and self._says:
            logger.warning("no answer of a leader", leader=self.leader, error=str(error))
        self._says = False
        self._session.lost()
        self._disconnect()
        await self._clock.sleep(self._settings.fetch_backoff_ms)

    @property
    def _settings(self) -> ReplicationSettings:
        return self._context.cluster.settings()

    def _wanted(self, now_ms: float) -> dict[Key, Followed]:
        """The partitions to fetch now.

        A fetch tells the leader that all records before its offset are safe here, so a partition that flushes by
        message must have flushed first. Until then there are none, as a fetch of the others could hold it up.
        """
        current = {
            key: followed
            for key, followed in self.followed.items()
            if followed.is_current
            and followed.not_before_ms <= now_ms
            and not followed.is_begun_anew
            and not self._is_held_back(followed)
        }
        if any(followed.partition.durable_end < followed.partition.log_end_offset for followed in current.values()):
            return {}
        return current

    def _is_held_back(self, followed: Followed) -> bool:
        """Whether a throttle does not allow to fetch the partition; then it is left alone for a while."""
        is_held_back = self._context.quota.holds_back(*followed.partition.key, in_sync=followed.lag == 0)
        if is_held_back:
            followed.not_before_ms = self._clock.monotonic_ms() + self._settings.fetch_backoff_ms
        return is_held_back

    async def _until_there_is_something(self, now_ms: float) -> None:
        """Return when there may be something to fetch; at `now_ms` there was nothing.

        A pause that ends between two looks at the clock would be seen by neither, and nothing would end this wait.
        """
        self._changed.clear()
        pauses = [
            followed.not_before_ms - now_ms for followed in self.followed.values() if followed.not_before_ms > now_ms
        ]
        timer = self._clock.call_later(min(pauses), self._changed.set) if pauses else None
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _fetch(self, wanted: dict[Key, Followed]) -> None:
        if self._peer is None:
            self._peer = self._context.cluster.connect(self.leader)
            if self._peer is None:
                await self._clock.sleep(self._settings.fetch_backoff_ms)
                return
        asked = {key: self._asked(followed) for key, followed in wanted.items()}
        response = await self._peer.send(self._call(asked), self._settings.socket_timeout_ms)
        self._says = True
        if response.error_code:
            self._session.lost(unknown=response.error_code == UNKNOWN_SESSION)
            if response.error_code != UNKNOWN_SESSION:
                logger.warning("fetch refused", leader=self.leader, error=ErrorCode(response.error_code).name)
                await self._clock.sleep(self._settings.fetch_backoff_ms)
            return
        self._session.answered(response.session_id)
        until_ms = self._clock.monotonic_ms() + TURN_MS
        for topic_id, results in response.topics:
            for result in results:
                key = (topic_id, result.partition_index)
                if key in wanted:
                    await self._take(wanted[key], asked[key].fetch_offset, result)
                if self._clock.monotonic_ms() >= until_ms:
                    await self._clock.sleep(0)
                    until_ms = self._clock.monotonic_ms() + TURN_MS

    async def _cut_off_unknown(self, wanted: Iterable[Followed]) -> None:
        """Keep only committed records where no leader epoch is known: the leader cannot say where the logs differ."""
        for followed in wanted:
            partition = followed.partition
            if partition.log.leader_epochs.latest < 0 and partition.log_end_offset > partition.high_watermark:
                await self._truncate(followed, Truncation(partition.log, partition.high_watermark))

    def _asked(self, followed: Followed) -> FetchPartition:
        log = followed.partition.log
        return FetchPartition(
            followed.partition.index,
            log.log_end_offset,
            self._settings.fetch_max_bytes,
            log.log_start_offset,
            followed.leader_epoch,
            log.leader_epochs.latest,
        )

    def _call(self, asked: dict[Key, FetchPartition]) -> Call[FetchResponse]:
        settings = self._settings
        topics, forgotten = self._session.next_request(asked)
        wait_ms = settings.fetch_wait_max_ms
        request = FetchRequest(
            max_wait_ms=min(wait_ms, SHORT_WAIT_MS) if self._beginning else wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            session_id=self._session.id,
            session_epoch=self._session.epoch,
            topics=topics,
            forgotten_topics=forgotten,
            replica_id=self._context.node_id,
            replica_epoch=self._context.cluster.broker_epoch(),
        )
        return fetch_call(request)

    # -- a partition's answer

    async def _take(self, followed: Followed, offset: int, result: FetchPartitionResponse) -> None:
        """Handle a partition's answer as the table above says."""
        if not followed.is_current or followed.partition.log_end_offset != offset:
            self._session.lost()  # within one, the leader would not repeat what is ignored here
            return
        try:
            if result.error_code == OUT_OF_RANGE:
                await self._find_offsets(followed)
            elif result.error_code == IN_REMOTE_STORAGE:
                self._begin_anew(followed, result.log_start_offset)
            elif result.error_code:
                self._leave_alone(followed, ErrorCode(result.error_code).name)
            elif result.diverging_epoch is not NO_EPOCH:
                to = offset_to_truncate_to(followed.partition.log, result.diverging_epoch)
                await self._truncate(followed, Truncation(followed.partition.log, to))
            else:
                await self._append(followed, result)
        except NotToldError as error:
            self._leave_alone(followed, str(error))
        except KafkaStorage as error:  # the log has said why, and is offline unless it only lacks room
            self._fail(followed, error)
        except KafkaError as error:
            name = followed.partition.log.name
            logger.warning("records of the leader not appended", partition=name, error=str(error))
            self._fail(followed, error)

    def _fail(self, followed: Followed, error: KafkaError) -> None:
        self._session.lost()
        self._leave_alone(followed, str(error))

    def _leave_alone(self, followed: Followed, reason: str) -> None:
        logger.debug("partition not fetched for a while", partition=followed.partition.log.name, reason=reason)
        followed.not_before_ms = self._clock.monotonic_ms() + self._settings.fetch_backoff_ms
        followed.is_left_alone = True

    async def _append(self, followed: Followed, result: FetchPartitionResponse) -> None:
        partition, records = followed.partition, memoryview(result.records or b"")  # type: ignore[arg-type]  # it is read
        now_ms = self._context.clock.wall_ms()
        self._context.quota.record(*partition.key, len(records))
        if (base_offset := begins_anew(partition.log, records, result.log_start_offset)) is not None:
            truncation = Truncation(partition.log, base_offset, partition.log_end_offset)
            if not await self._truncate(followed, truncation) or not followed.is_current:
                return
        while True:
            appended = follower_log.append(partition, records, now_ms, BATCHES_AT_A_TIME) if records else 0
            follower_log.take_offsets(partition, result.high_watermark, result.log_start_offset)
            records = records[appended:]
            if not appended or not records:
                break
            await self._clock.sleep(0)
            if not followed.is_current:
                self._session.lost()
                return
        followed.is_left_alone = False
        followed.lag = max(0, result.high_watermark - partition.log_end_offset)

    async def _find_offsets(self, followed: Followed) -> None:
        """Find an offset to go on from: the leader does not have this log's end (`fetchOffsetAndTruncate`)."""
        partition = followed.partition
        from broker.replication.following.leaders_offsets import EARLIEST, LATEST

        end, _ = await self._leader.offset(partition, followed.leader_epoch, LATEST)
        if not followed.is_current:
            return
        if end < partition.log_end_offset:
            await self._truncate(followed, Truncation(partition.log, end))
            return
        start, _ = await self._leader.offset(partition, followed.leader_epoch, EARLIEST)
        if not followed.is_current or start <= partition.log_end_offset:
            return
        if self._from_last_tiered(partition):
            self._begin_anew(followed, start)
        else:
            await self._truncate(followed, Truncation(partition.log, start, start))

    @property
    def _leader(self) -> LeadersOffsets:
        from broker.replication.following.leaders_offsets import LeadersOffsets

        assert self._peer is not None
        return LeadersOffsets(self._peer, self._context.node_id, self._settings.socket_timeout_ms)

    def _from_last_tiered(self, partition: Partition) -> bool:
        """Whether the replica is an empty one that begins behind all that is in remote storage (KIP-1023)."""
        settings, log = self._settings, partition.log
        return settings.from_last_tiered and log.config.remote_storage and not log.log_end_offset

    def _begin_anew(self, followed: Followed, log_start_offset: int) -> None:
        """Begin where the leader's own files do; the other partitions do not wait for remote storage meanwhile."""
        followed.is_begun_anew = True
        task = asyncio.ensure_future(self._begun_anew(followed, log_start_offset))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begun_anew(self, followed: Followed, log_start_offset: int) -> None:
        from broker.replication.following.tier_follower import begin_behind_remote_storage

        def truncate(truncation: Truncation) -> Awaitable[bool]:
            return self._truncate(followed, truncation, new_session=False)

        partition = followed.partition
        try:
            await begin_behind_remote_storage(
                self._leader,
                partition,
                followed.leader_epoch,
                log_start_offset,
                truncate,
                from_last_tiered=self._from_last_tiered(partition),
            )
        except (KafkaError, PeerError, NotToldError) as error:
            name, say = partition.log.name, logger.debug if followed.is_left_alone else logger.warning
            say("replica cannot begin behind what is in remote storage", partition=name, error=str(error))
            self._leave_alone(followed, str(error))
        except Exception:
            logger.exception("unexpected error while a replica was begun", partition=partition.log.name)
            self._leave_alone(followed, "an unexpected error")
        finally:
            followed.is_begun_anew = False
            self._changed.set()

    async def _truncate(self, followed: Followed, truncation: Truncation, *, new_session: bool = True) -> bool:
        """Truncate the log; whether that was done. Once begun it is finished, and nothing else changes the files.

        A new session tells the high watermark, which is not taken over with a diverging epoch.
        """
        truncating = asyncio.ensure_future(self._truncate_alone(followed, truncation))
        try:
            done = await asyncio.shield(truncating)
        except asyncio.CancelledError:
            await asyncio.wait([truncating])
            raise
        if done and new_session:
            self._session.lost()
        return done

    async def _truncate_alone(self, followed: Followed, truncation: Truncation) -> bool:
        partition, guard = followed.partition, self._context.guard
        log = partition.log

        def may_cut() -> bool:
            return followed.is_current and not guard.is_cleaning(log)

        folder = await guard.stop_moving(log)
        try:
            if not may_cut() or not await follower_log.truncate(partition, truncation, may_cut):
                self._leave_alone(followed, "the log is being compacted, or another broker leads")
                return False
        finally:
            if folder is not None:
                guard.move_again(log, folder)
        followed.lag = None
        logger.info("truncated to what the leader has", partition=log.name, offset=truncation.offset)
        return True
