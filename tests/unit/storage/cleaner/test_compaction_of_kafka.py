"""Segments that Apache Kafka 4.1 compacted, compacted here: the same come out (recorders/record_compaction.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.records.batch import BatchHeader, check_crc, read_header
from protocol.records.build import Record, iter_records
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.files import write_file_atomically
from storage.folders.log_checkpoints import CLEANER, OffsetCheckpoint
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.cleaner.cleaning import clean
from tests.unit.storage.support import Rig

FOLDER = Path(__file__).parent / "kafka_compaction"
RETENTION_MS = 2000
COMPACT = LogConfig(compact=True, delete=False, min_cleanable_dirty_ratio=0.0, delete_retention_ms=RETENTION_MS)
Batches = list[tuple[BatchHeader, bytes]]


def batches_in(data: bytes) -> Batches:
    found, at = [], 0
    while at < len(data):
        header = read_header(data, at)
        found.append((header, data[at : at + header.size]))
        at += header.size
    return found


def read_all(paths: list[Path]) -> Batches:
    return [batch for path in sorted(paths) for batch in batches_in(path.read_bytes())]


def when(after: Batches, before: Batches, now_ms: int) -> int:
    """The instant of Kafka's cleaning, which its new delete horizons tell; else what the recorder's clock said."""
    old = {header.base_timestamp for header, _ in before if header.has_delete_horizon}
    new = {header.base_timestamp for header, _ in after if header.has_delete_horizon} - old
    return new.pop() - RETENTION_MS if new else now_ms


def meaning(found: Batches) -> list[tuple[BatchHeader, list[Record]]]:
    """Headers and records, whatever the compressor made of them."""
    assert all(check_crc(data, 0, header) for header, data in found)
    return [(header._replace(batch_length=0, crc=0), list(iter_records(data, header))) for header, data in found]


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_a_compaction_ends_as_kafkas(name: str) -> None:
    before, after = FOLDER / name / "before", FOLDER / name / "after"
    facts = json.loads((FOLDER / name / "facts.json").read_text())
    theirs = read_all(list(after.iterdir()))
    fs = MemoryFileSystem()
    rig = Rig(fs, COMPACT)
    rig.log()
    rig.manager.release()
    for path in before.iterdir():
        write_file_atomically(fs, f"/data/t-0/{path.name}", path.read_bytes())
    if facts["cleaned_to"] is not None:
        OffsetCheckpoint(fs, "/data", CLEANER).write(lambda: {TopicPartition("t", 0): facts["cleaned_to"]})
    rig.clock.advance(when(theirs, read_all(list(before.iterdir())), facts["now_ms"]) - rig.clock.wall_ms())
    log = rig.reopen()
    assert clean(rig)
    assert [segment.base_offset for segment in log.segments] == sorted(int(path.stem) for path in after.iterdir())
    ours = [batch for segment in log.segments for batch in batches_in(segment.file.open().pread(segment.size, 0))]
    assert meaning(ours) == meaning(theirs)
    plain = [[data for header, data in found if not header.compression] for found in (ours, theirs)]
    assert plain[0] == plain[1]
