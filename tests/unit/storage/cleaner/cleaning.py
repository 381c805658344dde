"""Compacted logs for tests: keyed records in, one pass of the cleaner in virtual time, records out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from protocol.records.batch import BatchHeader, read_header
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from protocol.records.build import iter_records as records_of
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.cleaner.log_cleaner import CleanerConfig, LogCleaner
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.support import NOW, Rig, append, contents

T = TypeVar("T")

RETENTION_MS = 1000
COMPACT = LogConfig(
    compact=True,
    delete=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
    index_interval_bytes=1,
    file_delete_delay_ms=1,
)


class Kept(NamedTuple):
    """A record as a reader finds it."""

    offset: int
    key: bytes | None
    value: bytes | None


def cleaner(rig: Rig, config: CleanerConfig | None = None) -> LogCleaner:
    return LogCleaner(rig.manager, lambda log: log.log_end_offset, last_stable_offset, config)


def last_stable_offset(log: UnifiedLog) -> int:
    log.producers.on_high_watermark(log.log_end_offset)
    first = log.first_unstable_offset
    return log.log_end_offset if first is None else first


def run(rig: Rig, coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, time passing and workers working as it sleeps."""
    clock = rig.clock

    async def drive() -> T:
        task = asyncio.ensure_future(coroutine)
        # A worker may fail once the task has. Without this asyncio tells of the task's failure from the garbage
        # collector, which breaks what Python 3.11 is parsing at that moment (SystemError).
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not task.done():
            await asyncio.sleep(0)
            rig.workers.run_all()
            deadline = clock.next_deadline_ms()
            if not task.done() and deadline is not None:
                clock.advance(deadline - clock.monotonic_ms())
        return task.result()

    return asyncio.run(drive())


def clean(rig: Rig, config: CleanerConfig | None = None) -> bool:
    """Let the cleaner have one turn."""
    return run(rig, cleaner(rig, config).run_once())


def keyed(
    *pairs: tuple[bytes | None, bytes | None],
    timestamp: int = NOW,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> memoryview:
    """A batch of (key, value) records, a millisecond apart; a value of None is a tombstone."""
    records = [Record(i, timestamp + i, key, value) for i, (key, value) in enumerate(pairs)]
    if producer_id < 0:
        return memoryview(build_batch(records, compression=compression))
    return memoryview(
        build_batch(
            records,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def put(log: UnifiedLog, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> None:
    append(log, keyed(*pairs, **options))


def end_txn(log: UnifiedLog, producer_id: int, *, commit: bool, timestamp: int = NOW, epoch: int = 0) -> None:
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    data = build_end_marker(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=timestamp
    )
    log.append_as_leader(memoryview(data), leader_epoch=epoch, origin=AppendOrigin.COORDINATOR, now_ms=NOW)


def batches(log: UnifiedLog) -> list[tuple[BatchHeader, bytes]]:
    return [(read_header(data), data) for data in contents(log)]


def records(log: UnifiedLog, *, control: bool = False) -> list[Kept]:
    """Every record of the log, those of control batches only if asked for."""
    return list(_records(batches(log), control))


def _records(found: Iterable[tuple[BatchHeader, bytes]], control: bool) -> Iterable[Kept]:
    for header, data in found:
        if control or not header.is_control:
            for record in records_of(data, header):
                yield Kept(record.offset, record.key, record.value)


def roll(log: UnifiedLog) -> None:
    """Seal the segment, so that it may be cleaned, and give the next one a record."""
    log.roll()
    append(log, keyed((b"last", b"record")))


def kept(log: UnifiedLog) -> list[Kept]:
    """What is there but for the active segment's record."""
    return records(log)[:-1]
