"""Values that travel with an append: where it comes from, what the topic allows, what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import NamedTuple


class AppendOrigin(Enum):
    """The origin of an append; it selects how strictly the batch is checked (Kafka's AppendOrigin)."""

    CLIENT = auto()  # everything is checked
    REPLICATION = auto()  # the leader has checked the batch: stored as it is
    COORDINATOR = auto()  # this broker's own records and transaction markers: only producer epochs are checked


class AppendInfo(NamedTuple):
    """The result of an append; if `duplicate`, what the original append did that this one repeats.

    Attributes:
        first_offset: offset of the first record.
        last_offset: offset of the last record.
        log_append_time: milliseconds, or -1 when the topic keeps the producer's timestamps. For a duplicate it is
            the largest timestamp of the original batch, as in Kafka's answer.
        log_start_offset: the log's first offset.
        duplicate: the batch is already in the log; nothing was written.
    """

    first_offset: int
    last_offset: int
    log_append_time: int = -1
    log_start_offset: int = 0
    duplicate: bool = False


# Without a Python-level call, like everything made once per batch.
new_append_info: Callable[[tuple[int, int, int, int, bool]], AppendInfo] = partial(tuple.__new__, AppendInfo)


AS_RETENTION = -2
"""The local retention that is the whole retention (`LogConfig.DEFAULT_LOCAL_RETENTION_MS`)."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The part of a topic's configuration that the log uses, with Kafka 4.4's topic defaults (Kafka's LogConfig).

    Sizes are bytes, times milliseconds. `compression_type` is 'producer', 'uncompressed', 'gzip', 'snappy', 'lz4' or
    'zstd'; `message_timestamp_type` 'CreateTime' or 'LogAppendTime'. A retention of -1 is unbounded, a local one of -2
    the whole retention.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    max_decompressed_message_bytes: int = 2**31 - 9
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3600000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    compact: bool = False
    delete: bool = True
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60000
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5
    min_insync_replicas: int = 1
    remote_storage: bool = False
    remote_copy_disable: bool = False
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = -1
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    validates_schemas: bool = False
    """Whether the schemas that records name are looked up before an append: a batch is never checked on the loop."""

    keeps_batches: bool = field(init=False)
    """Whether batches of any compression are stored byte for byte."""

    max_segment_ms: int = field(init=False)
    """The age at which a segment is rolled: compaction must get at it within its lag (LogConfig.maxSegmentMs)."""

    @property
    def copies_to_remote(self) -> bool:
        """Whether segments are copied to remote storage, and only then removed here."""
        return self.remote_storage and not self.remote_copy_disable

    @property
    def kept_here_ms(self) -> int:
        """How long a tiered log's segments stay on local disk; -1 for no limit."""
        return self.retention_ms if self.local_retention_ms == AS_RETENTION else self.local_retention_ms

    @property
    def kept_here_bytes(self) -> int:
        """Bytes of a tiered log that stay on local disk; -1 for no limit."""
        return self.retention_bytes if self.local_retention_bytes == AS_RETENTION else self.local_retention_bytes

    def __post_init__(self) -> None:
        lag_counts = self.compact and self.max_compaction_lag_ms > 0
        max_segment_ms = min(self.max_compaction_lag_ms, self.segment_ms) if lag_counts else self.segment_ms
        object.__setattr__(self, "max_segment_ms", max_segment_ms)
        keeps = self.compression_type == "producer" and self.message_timestamp_type == "CreateTime"
        object.__setattr__(self, "keeps_batches", keeps)
