"""Truncation of a log, all its steps at once."""

from __future__ import annotations

from storage.log.follower_append import Truncation
from storage.log.unified_log import UnifiedLog


def truncate(truncation: Truncation, log: UnifiedLog) -> bool:
    """Whether anything was dropped. Raises KafkaStorage."""
    is_needed = truncation.is_needed
    truncation.begin()
    try:
        with truncation.holding():
            truncation.lower()
            truncation.cut()
            truncation.follow()
            truncation.finish()
    except OSError as error:
        raise log.fail(error) from error
    return is_needed


def truncate_to(log: UnifiedLog, offset: int) -> bool:
    return truncate(Truncation(log, offset), log)


def truncate_fully_and_start_at(log: UnifiedLog, offset: int) -> bool:
    return truncate(Truncation(log, offset, offset), log)
