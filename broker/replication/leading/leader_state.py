"""The leader of a partition with several replicas (the leader's half of Kafka's `Partition`).

How it works. Followers fetch; each fetch says how far its follower is (`FollowerState`). The high watermark may rise to
the smallest log end of the replicas in the maximal ISR, and of those that are about to join it, unless the ISR is
smaller than `min.insync.replicas` (KIP-966). A follower that has all that is committed, and all that there was when the
leader epoch began, is proposed for the ISR; for removal from it, one that lags longer than `replica.lag.time.max.ms`.
`in_sync_replicas` has the states of a proposal.

A node is alone with its partition as long as the partition has one replica: then there is no `LeaderState`. Which of
the replicas a consumer should read from (KIP-392; Kafka's `RackAwareReplicaSelector`) is decided here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog
from kio.schema.errors import ErrorCode

from broker.replication.leading.alter_partition import IsrChange, IsrOutcome
from broker.replication.leading.follower_state import NO_BROKER_EPOCH, FollowerState, InSyncReplicas
from controller.replica_rules import is_online
from protocol.errors import NotEnoughReplicas, NotLeaderOrFollower

if TYPE_CHECKING:
    from uuid import UUID

    from broker.membership.metadata_cache import MetadataCache
    from broker.replication.leading.alter_partition import AlterPartition
    from metadata.image import MetadataImage
    from metadata.topics import PartitionRegistration
    from protocol.topic_partition import PartitionKey
    from storage.log.unified_log import UnifiedLog
    from timing.clock import Clock


class ConsumerPlace(NamedTuple):
    """Where a consumer is: its rack, and the listener that it uses."""

    rack: str
    listener: str


def preferred_replica(
    image: MetadataImage, leader: int, replicas: LeaderState, offset: int, consumer: ConsumerPlace
) -> int | None:
    """The in-sync follower in the consumer's rack that has `offset` and is furthest; None if it is to read here.

    That is also so if the leader itself is in that rack.
    """
    brokers = image.cluster.brokers
    if leader in brokers and brokers[leader].rack == consumer.rack:
        return None
    candidates = []
    for replica, follower in replicas.followers.items():
        broker = brokers.get(replica)
        if broker is None or broker.fenced or broker.rack != consumer.rack or consumer.listener not in broker.listeners:
            continue
        if replica in replicas.in_sync.committed and follower.log_start_offset <= offset <= follower.log_end_offset:
            candidates.append((follower.log_end_offset, follower.caught_up_ms, replica))
    return max(candidates)[2] if candidates else None


logger = structlog.get_logger(__name__)

NOT_DONE = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
"""The controller says that our epochs are right, and that it has changed nothing."""

OUR_METADATA_IS_OLD = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)
"""Whether something was changed, the next image says; without one the controller is asked again."""

ASK_AGAIN_MS = 500
"""The pause before that: the image is a few milliseconds behind, unless this node's metadata cannot be trusted."""


@dataclass(slots=True)
class Replication:
    """The services that the leaders of a node share.

    `lag_time_max_ms` gives `replica.lag.time.max.ms`; `low_watermark_moved` is told of a partition whose low watermark
    may have risen. The counts are Kafka's IsrShrinks, IsrExpands, FailedIsrUpdates.
    """

    node_id: int
    clock: Clock
    cache: MetadataCache
    controller: AlterPartition
    lag_time_max_ms: Callable[[], int]
    low_watermark_moved: Callable[[PartitionKey], object]
    shrinks: int = field(default=0, init=False)
    expands: int = field(default=0, init=False)
    failed_updates: int = field(default=0, init=False)


class LedPartition(Protocol):
    """The partition, as its leader's state sees it (`broker.replication.partition.Partition`)."""

    topic_id: UUID
    key: PartitionKey
    log: UnifiedLog
    high_watermark: int

    def advance(self) -> bool: ...


class LeaderState:
    """See above.

    Attributes:
        followers: the other replicas, by broker id.
        in_sync: the ISR.
        partition_epoch: that of the newest state of the partition that is known here.
    """

    __slots__ = (
        "_directories",
        "_epoch_start_offset",
        "_leader_epoch",
        "_log",
        "_partition",
        "_shared",
        "followers",
        "in_sync",
        "partition_epoch",
    )

    def __init__(self, shared: Replication, partition: LedPartition) -> None:
        self._shared = shared
        self._partition = partition
        self._log = partition.log
        self.followers: dict[int, FollowerState] = {}
        self.in_sync = InSyncReplicas()
        self.partition_epoch = -1
        self._directories: dict[int, UUID | None] = {}
        self._leader_epoch = -1
        self._epoch_start_offset = 0

    def take(self, registration: PartitionRegistration, epoch_start_offset: int) -> None:
        """Take over the replicas, the ISR and the epochs of the image. The leader epoch began at this offset.

        A state that is older than the controller's last answer changes nothing.
        """
        if registration.partition_epoch < self.partition_epoch:
            return
        now_ms, isr = self._shared.clock.monotonic_ms(), registration.isr
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerState(now_ms, in_sync=replica in isr)
            for replica in registration.replicas
            if replica != self._shared.node_id
        }
        if registration.leader_epoch != self._leader_epoch:
            for replica, follower in self.followers.items():
                if replica in known:
                    follower.begin_epoch(now_ms, self._log.log_end_offset, in_sync=replica in isr)
        self._leader_epoch = registration.leader_epoch
        self._epoch_start_offset = epoch_start_offset
        self.partition_epoch = registration.partition_epoch
        self._directories = dict(zip(registration.replicas, registration.directories, strict=False))
        self.in_sync.commit(isr)

    def end(self) -> None:
        """End the leadership: what the controller answers now counts for nothing."""
        self.in_sync.commit(())

    # -- the high watermark, min.insync.replicas

    @property
    def min_in_sync(self) -> int:
        """`min.insync.replicas`, or the number of replicas if there are fewer."""
        return min(self._log.config.min_insync_replicas, len(self.followers) + 1)

    @property
    def in_sync_count(self) -> int:
        return len(self.in_sync.committed)

    @property
    def is_under_min_isr(self) -> bool:
        return self.in_sync_count < self.min_in_sync

    @property
    def is_at_min_isr(self) -> bool:
        return self.in_sync_count == self.min_in_sync

    @property
    def is_under_replicated(self) -> bool:
        return self.in_sync_count < len(self.followers) + 1

    @property
    def has_enough_replicas(self) -> bool:
        """Whether what the high watermark has passed is on as many replicas as it must be."""
        return len(self.in_sync.maximal) >= self.min_in_sync

    def check_enough(self) -> None:
        """Raises NotEnoughReplicas if nothing may be appended for acks=all."""
        if self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"{self._log.name} has {len(self.in_sync.committed)} in-sync replicas, and min.insync.replicas demands "
                f"{self.min_in_sync}."
            )

    def committed_end(self, own_end: int) -> int:
        """The offset up to which records are in all replicas that count; this node's own log is safe up to `own_end`.

        That is -1 while the ISR is too small. A follower that is about to join the ISR counts: else the high watermark
        would run away from it.
        """
        if self.is_under_min_isr:
            return -1
        shared, maximal, leader_end = self._shared, self.in_sync.maximal, self._log.log_end_offset
        now_ms, lag_ms = shared.clock.monotonic_ms(), shared.lag_time_max_ms()
        end = own_end
        for replica, follower in self.followers.items():
            if follower.log_end_offset < end and (
                replica in maximal
                or (follower.is_caught_up(leader_end, now_ms, lag_ms) and self._may_join(replica, follower))
            ):
                end = follower.log_end_offset
        return end

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of this node and of the followers that are alive (KIP-107).

        A replica whose folder has failed or has no room does not fetch: Kafka's leaders wait for it, too.
        """
        brokers = self._shared.cache.image.cluster.brokers
        starts = [self._log.log_start_offset]
        for replica, follower in self.followers.items():
            broker = brokers.get(replica)
            if broker is not None and not broker.fenced and is_online(broker, self._directories.get(replica)):
                starts.append(follower.log_start_offset)
        return min(starts)

    # -- followers

    def fetched(self, replica: int, offset: int, log_start_offset: int, broker_epoch: int) -> None:
        """Note that a follower has everything below `offset`. Raises NotLeaderOrFollower for an earlier run of it."""
        follower = self.followers[replica]
        broker = self._shared.cache.broker(replica)
        if broker is not None and not broker.fenced and NO_BROKER_EPOCH != broker_epoch < broker.epoch:
            raise NotLeaderOrFollower(f"The fetch of broker {replica} is of an earlier run of it.")
        end_moved = follower.log_end_offset != offset
        start_moved = follower.log_start_offset != log_start_offset
        now_ms = self._shared.clock.monotonic_ms()
        follower.fetched(offset, log_start_offset, self._log.log_end_offset, now_ms, broker_epoch)
        if replica not in self.in_sync.committed and self._is_in_sync(replica, follower):
            self._propose(self.in_sync.committed | {replica})
        if end_moved:
            self._partition.advance()
        if start_moved:
            self._shared.low_watermark_moved(self._partition.key)

    def shrink(self) -> None:
        """Propose an ISR without the followers that lag too long; to be called every half of that time."""
        shared, leader_end = self._shared, self._log.log_end_offset
        if self._partition.high_watermark < leader_end:
            self._partition.advance()  # a replica that was about to join, and held it back, may lag by now
        if self.in_sync.is_pending:
            return
        now_ms, lag_ms = shared.clock.monotonic_ms(), shared.lag_time_max_ms()
        late = {
            replica
            for replica in self.in_sync.committed
            if replica in self.followers and not self.followers[replica].is_caught_up(leader_end, now_ms, lag_ms)
        }
        if late:
            self._propose(self.in_sync.committed - late)

    def _is_in_sync(self, replica: int, follower: FollowerState) -> bool:
        """Whether it has all that is committed, and all that there was when this leader epoch began."""
        enough = max(self._partition.high_watermark, self._epoch_start_offset)
        return not self.in_sync.is_pending and follower.log_end_offset >= enough and self._may_join(replica, follower)

    def _may_join(self, replica: int, follower: FollowerState) -> bool:
        """Whether the controller would take it: it is alive, is not leaving, and is the run that has fetched.

        One whose folder has failed or has no room does not come back soon. Kafka's leaders wait for it, until it lags.
        """
        broker = self._shared.cache.broker(replica)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return False
        if not is_online(broker, self._directories.get(replica)):
            return False
        return follower.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)

    # -- proposals

    def _propose(self, isr: frozenset[int]) -> None:
        self.in_sync.propose(isr)
        self._submit(isr)

    def _submit(self, isr: frozenset[int], refused: ErrorCode = ErrorCode.none) -> None:
        """Ask for an ISR; `refused` is why the last request for it was."""
        change = IsrChange(
            self._partition.topic_id,
            self._log.partition,
            self._leader_epoch,
            self.partition_epoch,
            tuple((replica, self._epoch_of(replica)) for replica in sorted(isr)),
        )

        def done(outcome: IsrOutcome) -> None:
            if self.in_sync.proposed is isr:  # else an image came first
                self._answered(isr, outcome, refused)

        if not self._shared.controller.submit(change, done):
            self.in_sync.withdraw()  # a proposal of an earlier state is still on its way

    def _epoch_of(self, replica: int) -> int:
        follower = self.followers.get(replica)
        return self._shared.controller.broker_epoch() if follower is None else follower.broker_epoch

    def _answered(self, isr: frozenset[int], outcome: IsrOutcome, refused: ErrorCode) -> None:
        shared, before = self._shared, self.in_sync.committed
        described = {"partition": self._log.name, "isr": sorted(before), "proposed": sorted(isr)}
        if outcome.error is ErrorCode.none:
            if outcome.leader_epoch != self._leader_epoch or outcome.partition_epoch < self.partition_epoch:
                logger.info("answer about in-sync replicas came too late", **described)
                return
            self.partition_epoch = outcome.partition_epoch
            self.in_sync.commit(outcome.isr)
            shared.expands += len(isr) > len(before)
            shared.shrinks += len(isr) < len(before)
            logger.info("in-sync replicas changed", **described)
            self._partition.advance()
            return
        shared.failed_updates += 1
        if outcome.error is not refused:
            logger.warning("in-sync replicas not changed", error=outcome.error.name, **described)
        if outcome.error in NOT_DONE:
            self.in_sync.withdraw()
            self._partition.advance()
        elif outcome.error in OUR_METADATA_IS_OLD:
            shared.clock.machine.call_later(ASK_AGAIN_MS, lambda: self._ask_again(isr, outcome.error))
        else:
            self._submit(isr, outcome.error)

    def _ask_again(self, isr: frozenset[int], refused: ErrorCode) -> None:
        """Ask again for what was refused, with the epochs that are known now, unless an image came meanwhile."""
        if self.in_sync.proposed is isr:
            self._submit(isr, refused)
