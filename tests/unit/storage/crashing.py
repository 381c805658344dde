"""For tests in which the power fails: what changes nothing on disk, and what readers find afterwards."""

from __future__ import annotations

from protocol.records.build import iter_records
from storage.log.unified_log import UnifiedLog
from storage.segments.txn_index import collect_aborted
from tests.unit.storage.cleaner.cleaning import Kept, batches

READING = ("pread", "pread_nowait", "listdir", "size")
"""Operations of a file system before which a power failure is of no interest."""


def committed_view(log: UnifiedLog, stable: int) -> list[Kept]:
    """What a read-committed consumer gets, up to the last stable offset `stable`."""
    aborted = collect_aborted((segment.txn_index for segment in log.segments), log.log_start_offset, stable)
    found = []
    for header, data in batches(log):
        dead = any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset < txn.last_offset
            for txn in aborted
        )
        if header.base_offset < stable and not header.is_control and not (header.is_transactional and dead):
            found += [Kept(record.offset, record.key, record.value) for record in iter_records(data, header)]
    return [one for one in found if log.log_start_offset <= one.offset < stable]
