"""A partition that is fetched, and what the fetchers of a node share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.replication.partition import Partition, Role

if TYPE_CHECKING:
    from broker.replication.cluster_access import ClusterAccess, ReplicationQuota
    from storage.log.unified_log import UnifiedLog
    from timing.clock import Clock


class TruncationGuard(Protocol):
    """Keeps whatever else changes a log's files away from it while it is truncated."""

    async def stop_moving(self, log: UnifiedLog) -> str | None:
        """End the log's move to another folder, and return that folder; None if it is not being moved."""

    def move_again(self, log: UnifiedLog, folder: str) -> None: ...

    def is_cleaning(self, log: UnifiedLog) -> bool: ...


class NotToldError(Exception):
    """The leader answered a question with an error; the text is its name."""


@dataclass(slots=True, eq=False)
class Followed:
    """A partition that is fetched in one leader epoch.

    Attributes:
        lag: the number of records that it lacks; None if not known yet.
        is_left_alone: it is not fetched for a while after an error.
        is_begun_anew: remote storage is asked for what its log is to begin with; it is not fetched meanwhile.
    """

    partition: Partition
    leader_epoch: int
    not_before_ms: float = 0.0
    lag: int | None = None
    is_left_alone: bool = False
    is_begun_anew: bool = False

    @property
    def is_current(self) -> bool:
        partition = self.partition
        return partition.role is Role.FOLLOWER and partition.leader_epoch == self.leader_epoch


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """The services that the fetchers of a node share."""

    node_id: int
    clock: Clock
    cluster: ClusterAccess
    guard: TruncationGuard
    quota: ReplicationQuota
