"""Apache Kafka's own tool reads every file that we write."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.files import OsFileSystem
from tests.client.java_tools import java
from tests.unit.storage.cleaner.cleaning import clean, end_txn, put, records
from tests.unit.storage.support import NOW, Rig, append, batch

pytestmark = pytest.mark.usefixtures("java_tool")


def dump(*arguments: str) -> str:
    done = java("org.apache.kafka.tools.DumpLogSegments", *arguments)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def fill(rig: Rig) -> None:
    """Every compression, idempotent and transactional batches, several segments and index entries."""
    log = rig.log()
    for number in range(60):
        append(log, batch(b"x" * 90, timestamp=NOW + number, producer_id=3, sequence=number), epoch=number // 40)
    for compression in Compression:
        several = [Record(i, NOW + 100 + i, b"key", b"value" * 40) for i in range(5)]
        append(log, memoryview(build_batch(several, compression=compression)), epoch=1)
    data = build_batch(
        [Record(0, NOW, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    append(log, memoryview(data), epoch=1)
    marker = EndTransactionMarker(ControlRecordType.ABORT, 0)
    end = memoryview(build_end_marker(marker, producer_id=5, producer_epoch=0, timestamp=NOW))
    log.append_as_leader(end, leader_epoch=1, origin=AppendOrigin.COORDINATOR, now_ms=NOW)


@pytest.mark.parametrize("stopped", ["cleanly", "by kill -9 and recovered"])
def test_dump_log_segments_has_no_complaint(tmp_path: Path, stopped: str) -> None:
    rig = Rig(OsFileSystem(), LogConfig(segment_bytes=4000, index_interval_bytes=300), root=str(tmp_path))
    fill(rig)
    if stopped != "cleanly":
        rig.kill()
    rig.manager.close()
    logs, indexes, others = files_of(tmp_path / "t-0")
    assert len(logs) >= 3
    assert any(name.endswith(".txnindex") for name in others)
    deep = dump("--deep-iteration", "--print-data-log", "--files", ",".join(logs))
    assert deep.count("isvalid: true") == 67
    assert "isvalid: false" not in deep
    assert "offset: 66 " in deep
    check_indexes(indexes)
    said = dump("--files", ",".join(others))
    assert "producerId: 5" in said
    assert "rror" not in said


def files_of(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Segments, indexes, and the rest that the tool reads."""
    logs, indexes, others = (
        sorted(str(path) for suffix in suffixes for path in folder.glob(f"*{suffix}"))
        for suffixes in ((".log",), (".index", ".timeindex"), (".txnindex", ".snapshot"))
    )
    return logs, indexes, others


def check_indexes(indexes: list[str]) -> None:
    for check in ("--verify-index-only", "--index-sanity-check"):
        said = dump(check, "--deep-iteration", "--files", ",".join(indexes))
        for complaint in ("mismatch", "Mismatch", "out of order", "not found", "Found", "rror", "xception"):
            assert complaint not in said, said
    assert "passed sanity check" in said


def test_it_has_none_about_a_compacted_log_either(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=300, compact=True, min_cleanable_dirty_ratio=0.0)
    rig = Rig(OsFileSystem(), config, root=str(tmp_path))
    log = rig.log()
    for number in range(100):
        pairs = [(b"key %d" % (number % 13), b"x" * 90), (b"own %d" % number, b"y" * 30 if number % 3 else None)]
        put(log, *pairs, producer_id=3, sequence=2 * number, compression=list(Compression)[number % 5])
    put(log, (b"a", b"x"), producer_id=5, transactional=True)
    end_txn(log, 5, commit=False)
    put(log, (b"last", b"sealed"))
    log.roll()
    put(log, (b"active", b"segment"))
    before = log.size
    assert clean(rig)
    assert log.size < before * 0.8
    kept = len(records(log, control=True))
    rig.clock.advance(60_000)
    rig.workers.run_all()
    rig.manager.close()
    logs, indexes, others = files_of(tmp_path / "t-0")
    deep = dump("--deep-iteration", "--print-data-log", "--files", ",".join(logs))
    assert "isvalid: false" not in deep
    assert deep.count("| offset: ") == kept
    assert "deleteHorizonMs: OptionalLong[" in deep
    assert any(name.endswith(".txnindex") for name in others)
    check_indexes(indexes)
    assert "rror" not in dump("--files", ",".join(others))
