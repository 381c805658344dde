"""Logs are loaded after a clean stop or a crash: torn batches, damaged indexes, leftovers of unfinished work."""

from __future__ import annotations

import pytest

from storage.append_types import LogConfig
from storage.files import read_file, write_file_atomically
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.support import NOW, Rig, append, batch, contents

LOG = "/data/t-0/00000000000000000000.log"
INDEX = "/data/t-0/00000000000000000000.index"
TIME_INDEX = "/data/t-0/00000000000000000000.timeindex"
DENSE = LogConfig(index_interval_bytes=1)


def test_a_torn_last_batch_is_cut_off(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, DENSE)
    for _ in range(3):
        append(rig.log())
    data = read_file(fs, LOG)
    write_file_atomically(fs, LOG, data[:-1])
    log = rig.kill()
    assert log.log_end_offset == 2
    assert fs.size(LOG) == len(data) // 3 * 2
    assert append(log).first_offset == 2


def test_a_flipped_bit_cuts_the_log_and_removes_later_segments(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log)
    append(log)
    log.roll()
    append(log)
    data = bytearray(read_file(fs, LOG))
    data[-1] ^= 1
    write_file_atomically(fs, LOG, bytes(data))
    log = rig.kill()
    assert log.log_end_offset == 1
    assert len(log.segments) == 1
    assert not fs.exists("/data/t-0/00000000000000000002.log")


def test_zeros_after_the_last_batch_are_cut_off(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    write_file_atomically(fs, LOG, read_file(fs, LOG) + bytes(5000))
    assert rig.kill().log_end_offset == 1


def test_batches_larger_than_the_scan_buffer_are_recovered(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, LogConfig(max_message_bytes=1 << 22))
    append(rig.log())
    append(rig.log(), batch(b"x" * 2_500_000))
    append(rig.log())
    assert rig.kill().log_end_offset == 3


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut short"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_rebuilt(fs: MemoryFileSystem, path: str, damage: str, clean: bool) -> None:
    rig = Rig(fs, DENSE)
    log = rig.log()
    for shift in range(5):
        append(log, batch(timestamp=NOW + shift))
    offsets, times = log.segments.first.offset_index.entries(), log.segments.first.time_index.entries()
    log.roll()
    append(log)
    rig.workers.run_all()
    (rig.manager.close if clean else rig.manager.release)()
    content = read_file(fs, path)
    match damage:
        case "missing":
            fs.unlink(path)
        case "empty":
            write_file_atomically(fs, path, b"")
        case "garbage":
            write_file_atomically(fs, path, b"\xff" * len(content))
        case "cut short":
            write_file_atomically(fs, path, content[:-1])
    first = rig.reopen().segments.first
    if damage == "empty" and clean:
        # Kafka takes an empty index of a cleanly closed log as it is, too: lookups scan from the start.
        assert len(contents(rig.log())) == 6
    else:
        assert first.offset_index.entries() == offsets
        assert first.time_index.entries() == times


def test_leftovers_of_deletion_and_compaction_are_removed_or_finished(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log)
    append(log)
    rig.manager.close()
    data = read_file(fs, LOG)
    write_file_atomically(fs, LOG + ".deleted", b"x")
    write_file_atomically(fs, "/data/t-0/00000000000000000009.log.cleaned", b"x")
    write_file_atomically(fs, "/data/t-0/00000000000000000009.log.swap", b"x")
    write_file_atomically(fs, "/data/t-0/00000000000000000007.index", b"")
    compacted = data[len(data) // 2 :]
    for suffix, content in ((".log", compacted), (".index", b""), (".timeindex", b"")):
        write_file_atomically(fs, f"/data/t-0/00000000000000000000{suffix}.swap", content)
    log = rig.reopen()
    assert contents(log) == [compacted]
    assert sorted(name for name in fs.listdir("/data/t-0") if name[0] == "0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000002.snapshot",
    ]


def test_producers_are_known_after_a_kill(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    append(log, batch(producer_id=7))
    log.roll()
    original = append(log, batch(producer_id=7, sequence=1))
    log = rig.kill()
    again = append(log, batch(producer_id=7, sequence=1))
    assert again.duplicate
    assert again.first_offset == original.first_offset


def test_idle_logs_hold_no_descriptors(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    for partition in range(20):
        append(rig.log("t", partition))
    rig.restart()
    assert fs.open_files == 0
