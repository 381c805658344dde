"""Acknowledgements that wait until they are true (Kafka's `DelayedProduce`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from broker.replicas.partition import Role
from protocol.produce_fetch.produce_messages import PartitionProduceResponse, ProduceResponse
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.unknown_topic_or_partition)
NOT_LEADER_OR_FOLLOWER = int(ErrorCode.not_leader_or_follower)
NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.not_enough_replicas_after_append)

_REASONS = {
    Role.LEADER: int(ErrorCode.request_timed_out),
    Role.FOLLOWER: NOT_LEADER_OR_FOLLOWER,
    Role.OFFLINE: int(ErrorCode.kafka_storage_error),
}
"""Why an append of a partition in that role was not committed."""


class Unacknowledged(NamedTuple):
    """An append up to `offset` that is acknowledged once it is committed, or durable here if `all_replicas` is false.

    `led_since` is the partition's at the append: if this node has followed since, the records may be gone.
    """

    partition: Partition
    offset: int
    answer: PartitionProduceResponse
    all_replicas: bool
    led_since: int

    @property
    def is_reached(self) -> bool:
        partition = self.partition
        end = partition.high_watermark if self.all_replicas else partition.durable_end
        return end >= self.offset and partition.led_since == self.led_since

    @property
    def is_settled(self) -> bool:
        partition = self.partition
        return self.is_reached or partition.role is not Role.LEADER or partition.led_since != self.led_since


class DelayedProduce(DelayedOperation):
    """Completes when every append of a Produce request is settled; on expiry the others get REQUEST_TIMED_OUT."""

    __slots__ = ("_future", "_response", "_waiting")

    def __init__(
        self, waiting: Sequence[Unacknowledged], response: ProduceResponse, future: Future[ProduceResponse]
    ) -> None:
        super().__init__()
        self._waiting = waiting
        self._response = response
        self._future = future

    def try_complete(self) -> bool:
        return all(append.is_settled for append in self._waiting) and self.force_complete()

    def on_complete(self) -> None:
        for append in self._waiting:
            error = _error(append)
            if error is None:
                continue
            answer = append.answer
            answer.error_code = error
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not self._future.done():
            self._future.set_result(self._response)

    def on_expiration(self) -> None:
        """Do nothing more."""


def _error(append: Unacknowledged) -> int | None:
    """The error of an append; None if it is acknowledged. The ISR may have shrunk since the append."""
    partition = append.partition
    if append.is_reached:
        replicas = partition.replicas if append.all_replicas else None
        return None if replicas is None or replicas.has_enough_replicas else NOT_ENOUGH_REPLICAS_AFTER_APPEND
    if partition.is_deleted:
        return UNKNOWN_TOPIC_OR_PARTITION
    if partition.led_since != append.led_since:
        return NOT_LEADER_OR_FOLLOWER
    return _REASONS[partition.role]
