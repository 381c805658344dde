"""What a follower does to its partition (the follower's half of Kafka's `Partition` and `ReplicaFetcherThread`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from storage.log import follower_append
from storage.log.log_truncation import Truncation
from storage.workers import folder_lane

if TYPE_CHECKING:
    from broker.replicas.partition import Partition

logger = structlog.get_logger(__name__)


def append(partition: Partition, records: memoryview, now_ms: int, most_batches: int) -> int:
    """Append what the leader has from this log's end on; see `follower_append.append`."""
    size = follower_append.append(
        partition.log, records, leader_epoch=partition.leader_epoch, now_ms=now_ms, most_batches=most_batches
    )
    partition.changed()
    return size


def take_offsets(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    """Take over the leader's high watermark and log start, as far as this log reaches. Raises KafkaStorage."""
    partition.raise_high_watermark(min(high_watermark, partition.log_end_offset))
    partition.log.increment_log_start_offset(min(log_start_offset, partition.high_watermark))


async def truncate(partition: Partition, truncation: Truncation, may_cut: Callable[[], bool]) -> bool:
    """Cut the log, unless `may_cut` does not allow it when it comes to that; whether it was cut.

    What waits for the device is done in a worker thread. Once begun it must not be cancelled. Raises KafkaStorage.
    """
    log = partition.log
    workers = log.services.workers.lane(folder_lane("files", log.folder))
    truncation.begin()
    with truncation.holding():
        try:
            await workers.call(truncation.lower)
            log.check_online()
            if not may_cut():
                return False
            _warn_of_loss(partition, truncation)
            truncation.cut()
            partition.lower_high_watermark()
            await workers.call(truncation.follow)
        except OSError as error:
            raise log.fail(error) from error
        log.check_online()  # else it was deleted, or has failed
        truncation.finish()
        partition.lower_high_watermark()  # for the producers, too
    return True


def _warn_of_loss(partition: Partition, truncation: Truncation) -> None:
    if truncation.offset < partition.high_watermark and not truncation.is_anew:
        logger.warning(
            "truncating below the high watermark",
            partition=partition.log.name,
            offset=truncation.offset,
            high_watermark=partition.high_watermark,
        )
