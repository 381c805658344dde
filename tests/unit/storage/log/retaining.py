"""Logs of several segments for tests, and what retention leaves of them."""

from __future__ import annotations

from storage.append_types import LogConfig
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.support import (
    NOW,
    Rig,
    append,
    batch,
)

FOLDER = "/data/t-0"
DAY = 24 * 3600 * 1000


def filled(segments: int = 4, **config: object) -> tuple[Rig, UnifiedLog]:
    """A log of that many segments of two batches each, an hour apart, the active one included."""
    settings = {"retention_ms": -1, "file_delete_delay_ms": 1000, "message_timestamp_after_max_ms": 2**62} | config
    rig = Rig(MemoryFileSystem(), LogConfig(**settings))  # type: ignore[arg-type]
    log = rig.log()
    for number in range(segments):
        if number:
            log.roll()
        for _ in range(2):
            append(log, batch(b"v" * 100, timestamp=NOW + number * 3600_000))
    rig.workers.run_all()
    return rig, log


def names(rig: Rig, part: str = "") -> list[str]:
    return sorted(name for name in rig.fs.listdir(FOLDER) if part in name)


def bases(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]
