"""Acknowledgements that wait until they are true (Kafka's `DelayedProduce`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from protocol.errors import NotLeaderOrFollower
from protocol.hot.produce import PartitionProduceResponse, ProduceResponse
from timing.purgatory import DelayedOperation

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

REQUEST_TIMED_OUT = int(ErrorCode.request_timed_out)
STORAGE_ERROR = int(ErrorCode.kafka_storage_error)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.unknown_topic_or_partition)


class Unacknowledged(NamedTuple):
    """An append that is acknowledged once the partition's high watermark reaches `offset`."""

    partition: Partition
    offset: int
    answer: PartitionProduceResponse

    @property
    def settled(self) -> bool:
        return self.partition.high_watermark >= self.offset or self.partition.log.is_offline


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
            if not partition.log.is_offline:
                answer.error_code = REQUEST_TIMED_OUT
            elif isinstance(partition.log.storage_error(), NotLeaderOrFollower):  # deleted meanwhile
                answer.error_code = UNKNOWN_TOPIC_OR_PARTITION
            else:
                answer.error_code = STORAGE_ERROR
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not self._future.done():
            self._future.set_result(self._response)

    def on_expiration(self) -> None:
        """Do nothing more."""
