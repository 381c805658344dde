"""A log to be loaded again."""

from __future__ import annotations

from storage.append_types import LogConfig
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.support import Rig, append, batch

SMALL = LogConfig(segment_bytes=250, index_interval_bytes=1)


def filled(rig: Rig, count: int = 9) -> UnifiedLog:
    """Segments of two batches; everything of them on disk."""
    log = rig.log()
    for number in range(count):
        append(log, batch(b"x" * 20, producer_id=7, sequence=number), epoch=number // 4)
    rig.workers.run_all()
    return log
