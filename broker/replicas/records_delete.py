"""Deleting the oldest records (KIP-107; Kafka's `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.partition import Role
from protocol.errors import OffsetOutOfRange, PolicyViolation
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

TO_HIGH_WATERMARK = -1


def delete_records(partition: Partition, offset: int) -> int:
    """Raise the log's start to `offset` (-1: the high watermark), as leader; return that offset.

    Raises PolicyViolation if the topic's records may only be compacted, OffsetOutOfRange if `offset` is above the high
    watermark or below 0, and what `Partition.check_leads` does.
    """
    partition.check_leads()
    config = partition.log.config
    if config.compact and not config.delete:
        raise PolicyViolation(f"Records of partition {partition.log.name} may not be deleted by its policy.")
    high_watermark = partition.high_watermark
    if offset == TO_HIGH_WATERMARK:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange
    partition.log.increment_log_start_offset(offset)
    return offset


class Deletion(NamedTuple):
    """The records below `offset` are deleted on this leader, and are to be deleted on the followers that are alive."""

    partition: Partition
    offset: int

    @property
    def is_done(self) -> bool:
        """Whether all have deleted them. Only the leader knows that."""
        return self.partition.role is Role.LEADER and self.partition.low_watermark >= self.offset

    @property
    def is_settled(self) -> bool:
        return self.is_done or self.partition.role is not Role.LEADER


class DelayedDelete(DelayedOperation):
    """Completes when every deletion of a request is done, or cannot be any more; then `ready` is set."""

    __slots__ = ("_deletions", "_ready")

    def __init__(self, deletions: Sequence[Deletion], ready: Future[None]) -> None:
        super().__init__()
        self._deletions = deletions
        self._ready = ready

    def try_complete(self) -> bool:
        return all(deletion.is_settled for deletion in self._deletions) and self.force_complete()

    def on_complete(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def on_expiration(self) -> None:
        """Do nothing more: each partition's answer tells how far it is."""
