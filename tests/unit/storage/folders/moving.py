"""A log that moves to another folder, what it holds, and its state in a comparable form."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from storage.append_types import AppendOrigin, LogConfig
from storage.folders.log_move import LogMove
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.folders.two_folders import TwoFolders
from tests.unit.storage.support import NOW, Rig, append, batch, contents

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=1, flush_messages=3)
UNIQUE = UUID(int=7)


class MovingRig(TwoFolders):
    """t-0 lies in /one."""

    def move(self, path: str = "/two") -> LogMove:
        return LogMove(self.manager, self.log(), self.manager.log_dir(path), UNIQUE, lambda _: False)


async def finish(rig: Rig, moving: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, with the flushes and the time that it waits for."""
    task = asyncio.ensure_future(moving)
    while not task.done():
        await asyncio.sleep(0)
        rig.workers.run_all()
        deadline = rig.clock.next_deadline_ms()
        if not task.done() and deadline is not None:
            rig.clock.advance(deadline - rig.clock.monotonic_ms())
    await task


def fill(log: UnifiedLog, count: int = 12) -> None:
    """Plain and idempotent batches, an aborted transaction, and an open one; several segments."""
    sequence = log.log_end_offset
    for number in range(count):
        append(log, batch(b"plain %d" % number))
        append(log, batch(b"idempotent", producer_id=1, sequence=sequence + number))
    append(log, transactional(2, 0))
    log.append_as_leader(marker(2), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=NOW)
    append(log, transactional(3, 0))
    log.producers.on_high_watermark(log.log_end_offset)


def transactional(producer_id: int, sequence: int) -> memoryview:
    records = [Record(0, NOW, None, b"transactional")]
    return memoryview(
        build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    )


def marker(producer_id: int) -> memoryview:
    abort = EndTransactionMarker(ControlRecordType.ABORT, 0)
    return memoryview(build_end_marker(abort, producer_id=producer_id, producer_epoch=0, timestamp=NOW))


@dataclass
class State:
    """All that a log knows, to be compared."""

    contents: list[bytes]
    offsets: tuple[int, int, int | None]
    producers: dict[int, tuple[int, int]]
    epochs: tuple[Any, ...]
    aborted: list[Any]
    segments: list[tuple[int, int, int]] = field(default_factory=list)


def state_of(log: UnifiedLog) -> State:
    return State(
        contents(log),
        (log.log_start_offset, log.log_end_offset, log.first_unstable_offset),
        {key: (one.last_sequence, one.txn_first_offset) for key, one in log.producers.producers.items()},
        log.leader_epochs.entries,
        [entry for segment in log.segments for entry in segment.txn_index.entries],
        [(segment.base_offset, segment.size, segment.max_timestamp) for segment in log.segments],
    )


def folders(fs: MemoryFileSystem) -> list[str]:
    return [f"{root}/{name}" for root in ("/one", "/two") for name in fs.listdir(root) if name.startswith("t-0")]
