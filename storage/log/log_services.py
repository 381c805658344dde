"""The outside world as a log sees it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from storage.append_types import LogConfig
from storage.files import FileSystem
from storage.shortages import Shortages
from storage.workers import Workers
from timing.clock import Clock

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
