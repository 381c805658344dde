"""What a follower does to its partition (the follower's half of Kafka's `Partition` and `ReplicaFetcherThread`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log import follower_append, log_truncation

if TYPE_CHECKING:
    from broker.replicas.partition import Partition


def append(partition: Partition, records: memoryview, leaders_start: int, now_ms: int, most_batches: int) -> int:
    """Append what the leader, whose log begins at `leaders_start`, has from this log's end on.

    See `follower_append.append`.
    """
    log = partition.log
    base_offset = follower_append.begins_anew(log, records, leaders_start)
    if base_offset is not None:
        log_truncation.truncate_fully_and_start_at(log, base_offset, log.log_end_offset)
    size = follower_append.append(
        log, records, leader_epoch=partition.leader_epoch, now_ms=now_ms, most_batches=most_batches
    )
    partition.changed()
    return size


def take_offsets(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    """Take over the leader's high watermark and log start, as far as this log reaches. Raises KafkaStorage."""
    partition.raise_high_watermark(min(high_watermark, partition.log_end_offset))
    partition.log.increment_log_start_offset(min(log_start_offset, partition.high_watermark))


def truncate_to(partition: Partition, offset: int) -> None:
    """Drop the records from `offset` on, which the leader does not have. Blocks; raises KafkaStorage."""
    log_truncation.truncate_to(partition.log, offset)
    partition.lower_high_watermark()


def restart_at(partition: Partition, offset: int) -> None:
    """Drop all records, and go on at the leader's start. Blocks; raises KafkaStorage."""
    log_truncation.truncate_fully_and_start_at(partition.log, offset)
    partition.lower_high_watermark()
