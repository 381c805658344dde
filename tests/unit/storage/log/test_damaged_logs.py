"""A start over folders with damaged files, or with files of unknown kinds."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from protocol.errors import KafkaStorage
from storage.append_types import LogConfig
from storage.files import read_file, write_file_atomically
from storage.folders import partition_metadata
from storage.tools.verification import repair_partition
from tests.doubles.files import Fault
from tests.unit.storage.folders.two_folders import TwoFolders
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, batch, contents

FOLDER = "/data/t-0"


@pytest.fixture
def rig() -> Rig:
    """Two logs of several segments each."""
    rig = Rig(config=LogConfig(segment_bytes=300))
    for number in range(10):
        append(rig.log(), batch(b"a %d" % number))
        append(rig.log("u"), batch(b"b %d" % number))
    rig.log().increment_log_start_offset(2)
    rig.workers.run_all()
    return rig


def flip(rig: Rig, name: str, position: int) -> None:
    path = f"{FOLDER}/{name}"
    data = bytearray(read_file(rig.fs, path))
    data[position] ^= 0x80
    write_file_atomically(rig.fs, path, bytes(data))


def snapshot(rig: Rig) -> dict[str, bytes]:
    return {name: read_file(rig.fs, f"{FOLDER}/{name}") for name in rig.fs.listdir(FOLDER)}


@pytest.mark.parametrize(
    "data", [None, b"", b"\0\0", b"version: 0\ntopic_id: ?", b"version: 4\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"]
)
def test_a_damaged_or_missing_topic_id_is_written_anew(rig: Rig, data: bytes | None) -> None:
    before = contents(rig.log())
    rig.manager.close()
    if data is None:
        rig.fs.unlink(f"{FOLDER}/partition.metadata")
    else:
        write_file_atomically(rig.fs, f"{FOLDER}/partition.metadata", data)
    assert contents(rig.reopen()) == before
    assert rig.log().topic_id == TOPIC_ID
    assert partition_metadata.read(rig.fs, FOLDER) == TOPIC_ID


def test_a_missing_topic_id_that_finds_no_room_is_written_by_the_next_start(rig: Rig) -> None:
    before = contents(rig.log())
    rig.manager.close()
    rig.fs.unlink(f"{FOLDER}/partition.metadata")
    rig.files.inject(Fault("pwrite", 1, errno.ENOSPC, path_part="partition.metadata"))
    assert contents(rig.reopen()) == before
    assert partition_metadata.read(rig.files, FOLDER) is None
    rig.restart()
    assert partition_metadata.read(rig.files, FOLDER) == TOPIC_ID


def test_a_log_that_makes_no_sense_is_offline_alone_and_as_it_was(rig: Rig) -> None:
    before, others = contents(rig.log()), contents(rig.log("u"))
    last = rig.log().segments.active.base_offset
    rig.manager.close()
    flip(rig, f"{last:020}.log", 8)  # the batch's length
    files = snapshot(rig)
    for _ in range(2):
        log = rig.reopen()
        assert log.is_offline
        with pytest.raises(KafkaStorage):
            append(log)
        assert contents(rig.log("u")) == others
        rig.manager.close()
        assert snapshot(rig) == files
    repair_partition(rig.fs, FOLDER, NOW)
    log = rig.reopen()
    assert contents(log) == [one for one in before if int.from_bytes(one[:8]) < last]
    assert log.log_start_offset == 2


def test_what_nobody_knows_hinders_no_start(rig: Rig) -> None:
    before = contents(rig.log())
    rig.manager.close()
    for name in ("some.cleaned", "some.log.swap", "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.log", "some.snapshot", "note.txt"):
        write_file_atomically(rig.fs, f"{FOLDER}/{name}", b"")
    rig.fs.mkdir("/data/x-0.11111111111111111111111111111111-delete")
    rig.fs.mkdir("/data/x-0.11111111111111111111111111111111-delete/below")
    assert contents(rig.reopen()) == before
    assert sorted(name for name in rig.files.listdir("/data") if name.startswith("x-0")) == []


def test_a_damaged_stray_says_nothing_of_the_log_that_stays() -> None:
    two = TwoFolders()
    append(two.log())
    two.workers.run_all()
    assert two.log().folder == "/one/t-0"
    two.manager.close()
    two.fs.mkdir("/two/t-0")
    for name in two.fs.listdir("/one/t-0"):
        damage = b"\0" * 7 if name.endswith(".log") else b""
        write_file_atomically(two.fs, f"/two/t-0/{name}", read_file(two.fs, f"/one/t-0/{name}") + damage)
    partition_metadata.write(two.fs, "/two/t-0", UUID(int=99))
    log = two.reopen()
    assert log.folder == "/one/t-0"
    log.fail(OSError("it went offline later"))
    two.manager.close()
    assert not two.fs.exists("/one/.kafka_cleanshutdown")


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "last"])
@pytest.mark.parametrize("index", [True, False], ids=["index too long", "no index"])
def test_a_segment_cut_short_costs_no_records_of_others(clean: bool, which: int, index: bool) -> None:
    """LogLoader.loadSegmentFiles recovers segments with a bad index one by one. What a flush covered was not torn."""
    rig = Rig(config=LogConfig(segment_bytes=300, index_interval_bytes=1))
    for number in range(15):
        append(rig.log(), batch(b"a %d" % number, producer_id=7, sequence=number))
    rig.log().roll()
    append(rig.log(), batch(b"last", producer_id=7, sequence=15))
    rig.workers.run_all()
    before = contents(rig.log())
    if clean:
        rig.manager.close()
    else:
        rig.manager.checkpoint_recovery_points()
        rig.log().release_files()
    bases = sorted(int(name[:20]) for name in rig.fs.listdir(FOLDER) if name.endswith(".log"))[:-1]
    base = bases[which]
    end = [*bases, 15][bases.index(base) + 1]
    path = f"{FOLDER}/{base:020}.log"
    lost = 2 if index else 1
    write_file_atomically(rig.fs, path, read_file(rig.fs, path)[: 40 - 71 * lost])
    if not index:
        rig.fs.unlink(f"{FOLDER}/{base:020}.index")
    log = rig.reopen() if clean else rig.kill()
    assert contents(log) == [one for one in before if not end - lost <= int.from_bytes(one[:8]) < end]
    assert log.log_end_offset == 16
    assert append(log, batch(b"last", producer_id=7, sequence=15)).duplicate
    assert contents(rig.restart()) == contents(log)


def test_a_bad_index_has_no_other_segment_read(rig: Rig) -> None:
    """One that is damaged somewhere stays as it is, as it would with a good index elsewhere."""
    rig.manager.close()
    bases = sorted(name[:20] for name in rig.fs.listdir(FOLDER) if name.endswith(".log"))
    rig.fs.unlink(f"{FOLDER}/{bases[0]}.index")
    flip(rig, f"{bases[1]}.log", 65)
    before = read_file(rig.fs, f"{FOLDER}/{bases[1]}.log")
    log = rig.reopen()
    assert log.log_end_offset == 10
    assert read_file(rig.fs, f"{FOLDER}/{bases[1]}.log") == before
    assert rig.fs.exists(f"{FOLDER}/{bases[0]}.index")
