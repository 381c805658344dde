"""The outside world as a log sees it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocol.errors import UnknownServerError
from storage.append_types import LogConfig
from storage.files import FileSystem
from storage.shortages import Shortages
from storage.workers import Workers
from timing.clock import Clock

if TYPE_CHECKING:
    from protocol.topic_partition import EpochEntry
    from storage.log.log_segments import LogOffsetMetadata, TimestampOffsetEpoch
    from storage.log.read_plan import ReadPlan

DESCRIPTORS_RETRY_MS = 1_000
"""Delay before retrying what failed because too many files were open."""


@dataclass(frozen=True, slots=True)
class LogServices:
    """The services that a log needs: files, clock, worker threads, randomness, shortages, and a listener for long work.

    All of it may be used from any thread.
    """

    fs: FileSystem
    clock: Clock
    workers: Workers
    random: random.Random
    shortages: Shortages
    tell: Callable[[str], None] = lambda _: None

    def note_shortage(self, folder: str, error: Exception) -> None:
        """Note a transient error (`files.is_transient`) of the log in `folder`, for its folder of `log.dirs`."""
        self.shortages.note(folder.rpartition("/")[0], error)

    def jitter_ms(self, config: LogConfig) -> int:
        """How much earlier than its age limit a new segment is rolled (LogConfig.randomSegmentJitter)."""
        bound = min(config.segment_jitter_ms, config.segment_ms)
        return self.random.randrange(bound) if bound > 0 else 0


class LogHost(Protocol):
    """The part of its folder that a log needs."""

    def checkpoint(self) -> None:
        """Write the checkpoints, with the log's recovery point and `cleaned_to`; blocking. Raises OSError."""

    def failed(self, error: Exception) -> None:
        """Note that the log went offline."""


class ReplicaState(NamedTuple):
    """What a follower's log begins with that has all before `next_offset` in remote storage.

    `epochs` are the leader epochs up to there, `producers` the file with the producers (`snapshot_files`).
    """

    next_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: bytes


class Tier(Protocol):
    """What a log that is tiered has in remote storage (`storage.tier`).

    Attributes:
        highest_offset: the last offset that is there (`highestOffsetInRemoteStorage`); -1 if none is, or not known yet.
    """

    highest_offset: int

    def plan_read(self, start_offset: int, max_bytes: int, upper: LogOffsetMetadata, min_one_message: bool) -> ReadPlan:
        """The plan of a read from an offset that is only in remote storage."""

    async def first_at_or_after(self, timestamp: int) -> TimestampOffsetEpoch | None:
        """The first record in remote storage alone whose timestamp (ms) is at least this. Raises KafkaError."""

    async def replica_state(self, leader_epoch: int, offset: int) -> ReplicaState:
        """The state at the end of the remote segment that has this offset of this epoch. Raises KafkaError."""


class NoTier:
    """The tier of a log that has none, because the topic is not tiered or the node has no remote storage."""

    highest_offset = -1

    def plan_read(self, start_offset: int, max_bytes: int, upper: LogOffsetMetadata, min_one_message: bool) -> ReadPlan:
        raise UnknownServerError(f"Offset {start_offset} is in remote storage, and this broker has none.")

    async def first_at_or_after(self, _timestamp: int) -> TimestampOffsetEpoch | None:
        return None

    async def replica_state(self, _leader_epoch: int, offset: int) -> ReplicaState:
        raise UnknownServerError(f"Offset {offset} is in remote storage, and this broker has none.")


NO_TIER: Tier = NoTier()
