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

_REASONS = {
    Role.LEADER: int(ErrorCode.request_timed_out),
    Role.FOLLOWER: int(ErrorCode.not_leader_or_follower),
    Role.OFFLINE: int(ErrorCode.kafka_storage_error),
}
"""Why an append of a partition in that role was not committed."""


class Unacknowledged(NamedTuple):
    """An append that is acknowledged once the partition's high watermark reaches `offset`."""

    partition: Partition
    offset: int
    answer: PartitionProduceResponse

    @property
    def settled(self) -> bool:
        return self.partition.high_watermark >= self.offset or self.partition.role is not Role.LEADER


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
        return all(one.settled for one in self._waiting) and self.force_complete()

    def on_complete(self) -> None:
        for partition, offset, answer in self._waiting:
            if partition.high_watermark >= offset:
                continue
            answer.error_code = _REASONS[partition.role]
            if partition.is_deleted:
                answer.error_code = UNKNOWN_TOPIC_OR_PARTITION
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not self._future.done():
            self._future.set_result(self._response)

    def on_expiration(self) -> None:
        """Do nothing more."""
