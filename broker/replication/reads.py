"""The reads of one Fetch from several partitions (Kafka's `ReplicaManager.fetchMessages` and `readFromLog`)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING, NamedTuple

from broker.replication.bounds import HIGH_WATERMARK, LOG_END, TXN_COMMITTED
from broker.replication.partition import LEADER, NO_LEADER_EPOCH, READ_COMMITTED
from broker.replication.waits import NOWHERE, DelayedFetch, PartitionFetch
from protocol.errors import (
    InconsistentTopicId,
    KafkaError,
    NotLeaderOrFollower,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from protocol.produce_fetch.fetch_request import AbortedTransaction, EpochEndOffset

if TYPE_CHECKING:
    from broker.replication.fetch_session import FetchSession, Target
    from broker.replication.leading.leader_state import ConsumerPlace
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from protocol.produce_fetch.fetch_response import FetchPartitionResponse
    from storage.log.read_plan import ReadPlan, Records
    from storage.tier.cold_read import ColdPlan

READ_AT_ONCE = 1024 * 1024
"""Record data of an answer beyond this many bytes is read when the client has taken what comes before."""

MOST_COLD = 8
"""The most partitions that one Fetch has remote storage asked for; the others have their turn with a later one."""

Reading = Generator["ReadPlan", "Records", None]
"""Reads planned one after the other; each is sent the records that it asked for, or has the error thrown."""


class Reader(NamedTuple):
    """The reader: a consumer, or the follower with that broker id and epoch.

    `only_leader`: a consumer that does not read from followers (KIP-392). `place` is that of one that does, and is to
    be sent to a follower near it.
    """

    replica_id: int = -1
    replica_epoch: int = -1
    only_leader: bool = True
    place: ConsumerPlace | None = None


class RecordsRead(ABC):
    """Reads partitions in the order of the request, and waits for more if there is too little.

    A subclass knows the request: it looks up partitions, and puts errors into their answers. A follower reads up to the
    log's end, and each of its requests tells the partitions how far it is.

    Attributes:
        partitions: what is read of each; the results are in here.
        failed: a partition has an error, differs from what the client has, is to be read elsewhere, or was read from
            remote storage: to be answered at once.
    """

    __slots__ = (
        "_cold",
        "_committed",
        "_is_follower",
        "_isolation",
        "_left",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_noted",
        "_only_leader",
        "_place",
        "_read_bytes",
        "_reader",
        "_reading",
        "_replicas",
        "_watching",
        "failed",
        "partitions",
    )

    def __init__(
        self,
        replicas: ReplicaManager,
        partitions: list[PartitionFetch],
        reader: Reader,
        isolation_level: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        watching: FetchSession | None = None,
    ) -> None:
        """`watching`: a session with further partitions, in which there was nothing to read when they last changed."""
        self._replicas = replicas
        self._watching = watching
        self._reader = reader
        replica_id, _, self._only_leader, self._place = reader
        self._is_follower = is_follower = replica_id >= 0
        self._committed = isolation_level == READ_COMMITTED and not is_follower
        self._isolation = LOG_END if is_follower else TXN_COMMITTED if self._committed else HIGH_WATERMARK
        self._noted = False
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self.partitions = partitions
        self._left = self._read_bytes = 0
        self.failed = False
        self._cold: list[ColdPlan] = []
        self._reading: Reading = self._read()

    @abstractmethod
    def find(self, target: Target) -> Partition:
        """The partition to read; called anew if it is deleted meanwhile. Raises KafkaError if there is none."""

    @abstractmethod
    def refuse(self, fetch: PartitionFetch, error: KafkaError) -> None:
        """Answer a partition that was found with an error."""

    @property
    def is_enough(self) -> bool:
        """Whether there is nothing to wait for."""
        enough = self._read_bytes >= self._min_bytes
        return enough or self.failed or self._max_wait_ms <= 0 or not (self.partitions or self._has_idle)

    @property
    def _has_idle(self) -> bool:
        """Whether there are partitions to wait for that are not looked at."""
        return self._watching is not None and len(self._watching.due) < len(self._watching.targets)

    def has_changed(self) -> bool:
        """Whether a partition that was not looked at is to be read, or has an error, by now."""
        return False

    def begin(self) -> ReadPlan | None:
        """Read what is in the page cache; return the first read that would wait for the device, if any."""
        return _advance(self._reading)

    async def go_on(self, plan: ReadPlan | None) -> None:
        """Do the reads from `plan` on."""
        while plan is not None:
            outcome: Records | KafkaError
            try:
                # A read that began goes on in its thread, and holds its file, even if this request is given up.
                outcome = await asyncio.shield(plan.records())
            except KafkaError as error:
                outcome = error
            plan = _advance(self._reading, outcome)

    async def again(self) -> None:
        """Read anew, after a wait."""
        self._noted = True
        self._cold = []
        self._reading = self._read()
        await self.go_on(self.begin())

    def wait_at_most(self, most_ms: int) -> None:
        """Let `wait` take no longer than that."""
        self._max_wait_ms = min(self._max_wait_ms, most_ms)

    async def wait(self) -> None:
        """Wait for enough bytes, or a change of a partition, as long as the request allows (`DelayedFetch`)."""
        if self._replicas.stopping:
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        has_changed = self._is_loaded if self._cold else self.has_changed
        operation = DelayedFetch(self.partitions, self._isolation, self._min_bytes, ready, has_changed)
        keys: list[Hashable] = [fetch.partition.key for fetch in self.partitions]
        if self._watching is not None:
            keys.append(self._watching)
        self._replicas.fetch_purgatory.watch(operation, keys, self._max_wait_ms)
        try:
            await ready
        finally:
            operation.force_complete()

    def _is_loaded(self) -> bool:
        """Whether something has come from remote storage, or there is another reason to read again."""
        return not all(plan.is_pending for plan in self._cold) or self.has_changed()

    def _read(self) -> Reading:
        """Read the partitions in the order of the request, within the limits on bytes (KIP-74).

        Those that had nothing to read, and still have not, keep their results.
        """
        self._left, self._read_bytes, self.failed = self._max_bytes, 0, False
        for fetch in self.partitions:
            try:
                if fetch.idle_at is not None and fetch.idle_at == fetch.partition.bounds:
                    continue
                if fetch.partition.is_deleted:
                    fetch.partition = self.find(fetch.target)
                plan = self._plan(fetch)
                if plan is not None:
                    if plan.is_cold:
                        yield from self._read_cold(fetch, plan)
                    else:
                        self._take(fetch, plan, (yield plan))
            except KafkaError as error:
                self.failed = True
                self.refuse(fetch, _told_to_follower(fetch, error) if self._is_follower else error)
            if self._left < 0:  # noqa: PLR1730 (max() would be a call for each partition)
                self._left = 0  # a negative limit is that of the first partition alone, as in Kafka

    def _plan(self, fetch: PartitionFetch) -> ReadPlan | None:
        """Begin the partition's result; return the read to do, or None if there is nothing new, as most often."""
        target, partition, result = fetch.target, fetch.partition, fetch.result
        result.records, result.aborted_transactions, fetch.idle_at = b"", None, None
        key = target.key[0]
        if key is not partition.topic_id and not isinstance(key, str) and key != partition.topic_id:
            raise InconsistentTopicId
        fetch.leader_epoch = leader_epoch = partition.leader_epoch
        if partition.role is not LEADER or target.current_leader_epoch not in (NO_LEADER_EPOCH, leader_epoch):
            partition.check_leader_epoch(target.current_leader_epoch, self._only_leader)
        is_follower = self._is_follower
        if is_follower:
            _check_assigned(self._reader.replica_id, target, partition)
        diverges = target.last_fetched_epoch >= 0 and self._diverges(target, partition, result)
        if is_follower and not self._noted and not diverges:
            self._note_follower(target, partition)
        bounds = partition.bounds
        start, result.last_stable_offset, result.high_watermark, _ = bounds
        result.log_start_offset = start
        if diverges or (self._place is not None and self._is_elsewhere(fetch, self._place)):
            return None
        if is_follower and self._is_held_back(fetch):
            return None
        if self._committed:
            result.aborted_transactions = ()
        end_offset = bounds[self._isolation]
        if start <= target.fetch_offset == end_offset:
            fetch.offset, fetch.idle_at = end_offset, bounds
            fetch.start = NOWHERE if self._min_bytes <= 1 <= target.max_bytes else partition.place(end_offset)
            return None
        max_bytes = max(min(target.max_bytes, self._left), 0)
        at_once = READ_AT_ONCE - self._read_bytes
        return partition.plan_read(target.fetch_offset, max_bytes, end_offset, self._read_bytes == 0, at_once)

    def _read_cold(self, fetch: PartitionFetch, plan: ReadPlan) -> Reading:
        """Take what was read from remote storage if it has come; else the request waits for it, and for nothing else.

        Followers get such records from there themselves.
        """
        from storage.tier.cold_read import ColdPlan

        assert isinstance(plan, ColdPlan)
        if self._is_follower:
            raise OffsetMovedToTieredStorage
        if len(self._cold) == MOST_COLD:
            fetch.is_held_back = True
            return
        data = yield plan
        fetch.is_held_back = plan.is_pending
        if plan.is_pending:
            self._cold.append(plan)
            self._max_wait_ms = plan.max_wait_ms
            self._min_bytes = max(self._min_bytes, 1)
        else:
            self.failed = True
            self._take(fetch, plan, data)

    def _is_elsewhere(self, fetch: PartitionFetch, place: ConsumerPlace) -> bool:
        """Whether the consumer is to read from another replica, which its answer names then."""
        replicas = fetch.partition.replicas
        fetch.result.preferred_read_replica = -1
        if replicas is None:
            return False
        preferred = self._replicas.preferred_replica(replicas, fetch.target.fetch_offset, place)
        if preferred is None:
            return False
        fetch.result.preferred_read_replica = preferred
        self.failed = True
        return True

    def _is_held_back(self, fetch: PartitionFetch) -> bool:
        """Whether the follower is to get nothing of the partition now, since its replication is throttled."""
        replicas, (topic, index) = fetch.partition.replicas, fetch.partition.key
        in_sync = replicas is not None and self._reader.replica_id in replicas.in_sync.committed
        fetch.is_held_back = self._replicas.leader_quota.holds_back(topic, index, in_sync=in_sync)
        return fetch.is_held_back

    def _note_follower(self, target: Target, partition: Partition) -> None:
        """Let the partition know how far the follower is."""
        replicas, (replica_id, replica_epoch, *_) = partition.replicas, self._reader
        assert replicas is not None, "the follower is one of the partition's"
        if partition.log_start_offset <= target.fetch_offset <= partition.log_end_offset:  # else it is told so
            replicas.fetched(replica_id, target.fetch_offset, target.log_start_offset, replica_epoch)

    def _take(self, fetch: PartitionFetch, plan: ReadPlan, data: Records) -> None:
        """Put what was read into the partition's result."""
        result = fetch.result
        if plan.first_entry_incomplete:
            data = b""
            if plan.max_bytes > 0:  # Kafka has read a part of it and throws that away, transactions and all
                result.aborted_transactions = None
        result.records = data
        fetch.start = plan.upper if plan.segment is None else plan.start
        fetch.offset = fetch.start.offset
        if self._committed and result.aborted_transactions is not None:
            result.aborted_transactions = [
                AbortedTransaction(found.producer_id, found.first_offset)
                for found in fetch.partition.aborted_transactions(plan, len(data))
            ]
        self._left -= len(data)
        self._read_bytes += len(data)

    def _diverges(self, target: Target, partition: Partition, result: FetchPartitionResponse) -> bool:
        """Whether the log differs from the one that the client read before; if so, note where in `result` (KIP-595)."""
        epoch, end_offset = partition.end_offset_for_epoch(target.last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or target.fetch_offset < partition.log_start_offset:
            raise OffsetOutOfRange
        if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
            result.diverging_epoch = EpochEndOffset(epoch, end_offset)
            self.failed = True
            return True
        return False


def _check_assigned(replica_id: int, target: Target, partition: Partition) -> None:
    """Raises an error to try again after if this node does not know the follower as one of the partition's, yet."""
    if partition.replicas is None or replica_id not in partition.replicas.followers:
        raise NotLeaderOrFollower if target.current_leader_epoch < 0 else UnknownLeaderEpoch


def _told_to_follower(fetch: PartitionFetch, error: KafkaError) -> KafkaError:
    """The error of a read, which is another one for an offset in remote storage (`handleOffsetOutOfRangeError`)."""
    log = fetch.partition.log
    if not isinstance(error, OffsetOutOfRange) or not log.config.remote_storage:
        return error
    is_remote = log.log_start_offset <= fetch.target.fetch_offset < log.local_log_start_offset
    return OffsetMovedToTieredStorage() if is_remote else error


def _advance(reading: Reading, outcome: Records | KafkaError | None = None) -> ReadPlan | None:
    """Go on with what came of the last plan, its bytes or an error, as long as the page cache has the next bytes.

    Returns the first plan that would wait for the device, or None at the end.
    """
    try:
        while True:
            if outcome is None:
                plan = next(reading)
            elif isinstance(outcome, KafkaError):
                plan = reading.throw(outcome)  # an error of that partition, not of the request
            else:
                plan = reading.send(outcome)
            try:
                outcome = plan.try_records()
            except KafkaError as error:
                outcome = error
            if outcome is None:
                return plan
    except StopIteration:
        return None
