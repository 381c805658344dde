"""Full disks, failing devices, one of several folders: what goes on, what does not, what was acknowledged."""

from __future__ import annotations

import errno
import random
from dataclasses import replace

import pytest

from protocol.errors import KafkaStorage
from storage.append_types import LogConfig
from storage.folders.log_checkpoints import CheckpointError
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from storage.log.log_services import LogServices
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.cleaner.cleaning import clean, end_txn, keyed, last_stable_offset, put, records
from tests.unit.storage.support import TOPIC_ID, Rig, append, batch, contents, read

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


class FullDisk:
    """Refuses whatever takes room, from the `number`-th operation on that does, until there is room again."""

    def __init__(self, fs: MemoryFileSystem, number: int = 1) -> None:
        self._fs = fs
        self._left = number
        self.refused = 0
        fs.hook = self._refuse

    def _refuse(self, operation: str, path: str) -> None:
        grows = operation == "pwrite" or (operation == "open" and not self._fs.exists(path))
        if grows:
            self._left -= 1
            if self._left < 1:
                self.refused += 1
                raise OSError(errno.ENOSPC, "No space left on device", path)

    def free(self) -> None:
        self._fs.hook = None


@pytest.fixture
def rig() -> Rig:
    return Rig(MemoryFileSystem(), CONFIG)


def memory(rig: Rig) -> MemoryFileSystem:
    return rig.files


# -- a full disk


@pytest.mark.parametrize("number", range(1, 25))
def test_a_full_disk_refuses_appends_and_takes_them_again_once_there_is_room(rig: Rig, number: int) -> None:
    """Wherever in an append, a roll, an index or a snapshot the room ends."""
    log = rig.log()
    expected: list[bytes] = []
    disk = FullDisk(memory(rig), number)
    for at in range(14):
        data = batch(b"x" * 60, producer_id=7, sequence=len(expected))
        try:
            append(log, data, epoch=at // 4)
        except KafkaStorage:
            assert not log.is_offline
            assert contents(log) == expected
        else:
            expected.append(bytes(data))
    assert disk.refused
    disk.free()
    for _ in range(5):
        data = batch(b"y" * 60, producer_id=7, sequence=len(expected))
        assert append(log, data, epoch=4).first_offset == len(expected)
        expected.append(bytes(data))
    assert contents(log) == expected
    epochs = log.leader_epochs.entries
    for log in (rig.kill(), rig.restart()):
        assert contents(log) == expected
        assert log.producers.producers[7].last_sequence == len(expected) - 1
        assert log.leader_epochs.entries == epochs


def test_an_abort_on_a_full_disk_is_in_the_transaction_index_later(rig: Rig) -> None:
    log = rig.log()
    put(log, (b"a", b"1"), producer_id=7, transactional=True)
    disk = FullDisk(memory(rig), 2)  # there is room for the marker, not for the index entry
    end_txn(log, 7, commit=False)
    disk.free()
    assert disk.refused
    assert [txn.producer_id for txn in log.segments.active.txn_index.entries] == [7]
    assert last_stable_offset(log) == 2
    log = rig.restart()
    assert [txn.producer_id for txn in log.segments.active.txn_index.entries] == [7]


def test_a_flush_that_finds_no_room_takes_the_log_offline(rig: Rig) -> None:
    """The kernel may have dropped what it could not place: nothing can be said of it any more."""
    log = rig.log()
    append(log)
    memory(rig).inject(Fault("fdatasync", 1, errno.ENOSPC))
    log.flush()
    rig.workers.run_all()
    assert log.is_offline
    assert log.flushed.offset == 0


def test_compaction_waits_for_room(rig: Rig) -> None:
    log = rig.log()
    log.config = replace(CONFIG, compact=True, min_cleanable_dirty_ratio=0.0)
    for number in range(10):
        put(log, (b"a", b"%d" % number))
    log.roll()
    put(log, (b"b", b"1"))
    before = records(log)
    rig.workers.run_all()
    disk = FullDisk(memory(rig))
    clean(rig)
    assert records(log) == before
    assert not log.is_offline
    disk.free()
    rig.clock.advance(15_000)
    assert clean(rig)
    assert [record.value for record in records(log)] == [b"9", b"1"]


# -- short writes, device errors


def test_writes_that_take_a_few_bytes_each_still_write_all(rig: Rig) -> None:
    log = rig.log()
    for number in range(1, 6):
        memory(rig).inject(Fault("pwrite", number, taken=number))
    data = batch(b"x" * 60)
    append(log, data)
    assert contents(log) == [bytes(data)]


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_kafka_storage_error_after_a_device_error_and_nothing_is_acknowledged(rig: Rig, operation: str) -> None:
    log = rig.log()
    log.config = replace(CONFIG, flush_messages=1)
    append(log)
    rig.workers.run_all()
    memory(rig).inject(Fault(operation, 1, errno.EIO, path_part=".log"))
    try:
        append(log)
    except KafkaStorage:
        assert operation == "pwrite"
    rig.workers.run_all()
    assert log.is_offline
    assert log.flushed.offset == 1
    with pytest.raises(KafkaStorage):
        append(log)
    memory(rig).crash(Unsynced.LOST)
    assert rig.reopen().log_end_offset >= 1


# -- several folders


class Folders(Rig):
    """Two folders, with a partition in each."""

    paths = ("/one", "/two")

    def open(self) -> LogManager:
        self.services = LogServices(
            self.fs, self.clock, self.workers, random.Random(0), Shortages(self.clock.monotonic_ms)
        )
        self.dirs = LogDirs.open(self.fs, list(self.paths), node_id=1, new_id=self.new_id, now_ms=self.clock.wall_ms())
        return LogManager.open(self.services, self.dirs, lambda _: self.config, new_id=self.new_id, recovery_threads=2)


def folder_of(log: UnifiedLog) -> str:
    return log.folder.rpartition("/")[0]


@pytest.fixture
def folders() -> Folders:
    return Folders(MemoryFileSystem(), CONFIG)


def test_partitions_spread_over_the_folders(folders: Folders) -> None:
    logs = [folders.log("t", index) for index in range(6)]
    assert sorted(folder_of(log) for log in logs) == ["/one"] * 3 + ["/two"] * 3


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_failing_device_takes_its_folder_offline_and_no_other(folders: Folders, operation: str) -> None:
    logs = [folders.log("t", index) for index in range(4)]
    bad = [log for log in logs if folder_of(log) == "/one"]
    good = [log for log in logs if folder_of(log) == "/two"]
    for log in logs:
        append(log)
    folders.workers.run_all()
    offline: list[UnifiedLog] = []
    for log in bad:
        log.on_offline = lambda log, _: offline.append(log)
    memory(folders).inject(Fault(operation, 1, errno.EIO, path_part="/one/"))
    if operation == "pwrite":
        with pytest.raises(KafkaStorage):
            append(bad[0])
    else:
        bad[0].flush()
        folders.workers.run_all()
    assert all(log.is_offline for log in bad)
    assert sorted(log.partition for log in offline) == sorted(log.partition for log in bad)
    for log in good:
        append(log)
        assert len(contents(log)) == 2
    assert {folder_of(folders.log("new", index)) for index in range(3)} == {"/two"}
    folders.manager.checkpoint_recovery_points()
    assert folders.manager.failed_folders == {"/one"}


def test_only_the_folder_that_failed_needs_recovery(folders: Folders) -> None:
    logs = [folders.log("t", index) for index in range(2)]
    for log in logs:
        append(log)
    bad = next(log for log in logs if folder_of(log) == "/one")
    bad.fail(OSError(errno.EIO, "gone"))
    folders.manager.close()
    folders.manager = folders.open()
    assert [log_dir.clean for log_dir in folders.dirs.dirs] == [False, True]
    assert all(len(contents(folders.log("t", index))) == 1 for index in range(2))


@pytest.mark.parametrize("name", ["recovery-point", "log-start"])
def test_only_the_folder_whose_checkpoint_failed_at_the_stop_needs_recovery(folders: Folders, name: str) -> None:
    for index in range(2):
        append(folders.log("t", index))
        folders.log("t", index).increment_log_start_offset(1)
    memory(folders).inject(Fault("pwrite", 1, errno.EIO, path_part=f"/one/{name}"))
    with pytest.raises(CheckpointError):
        folders.manager.close()
    folders.manager = folders.open()
    assert [log_dir.clean for log_dir in folders.dirs.dirs] == [False, True]
    assert all(folders.log("t", index).log_end_offset == 1 for index in range(2))


def test_an_error_of_one_file_leaves_the_others_of_its_folder_alone(rig: Rig) -> None:
    one, other = rig.log("one"), rig.log("other")
    one.fail(FileNotFoundError(errno.ENOENT, "somebody removed it"))
    append(other)
    assert not other.is_offline


def test_when_every_folder_failed_no_partition_is_made(rig: Rig) -> None:
    rig.log().fail(OSError(errno.EIO, "gone"))
    with pytest.raises(KafkaStorage, match="Every log directory has failed"):
        rig.manager.plan_log("new", 0, TOPIC_ID, CONFIG, 0)


def test_a_log_whose_folder_failed_while_it_was_made_is_offline(folders: Folders) -> None:
    manager = folders.manager
    makes = [manager.plan_log("t", index, TOPIC_ID, CONFIG, 0) for index in range(2)]
    manager.fail_folder(manager.log_dir("/two"), OSError(errno.EIO, "gone"))
    for make in makes:
        manager.adopt(make())
    assert {folder_of(log): log.is_offline for log in manager.logs.values()} == {"/one": False, "/two": True}


def test_a_log_that_cannot_be_closed_does_not_keep_the_others_from_it(rig: Rig) -> None:
    for topic in ("a", "b", "c"):
        append(rig.log(topic))
    memory(rig).inject(Fault("fdatasync", 1, errno.EINVAL, path_part="/b-0/"))
    with pytest.raises(KafkaStorage):
        rig.manager.close()
    memory(rig).crash(Unsynced.LOST)
    rig.manager = rig.open()
    assert [len(contents(rig.log(topic))) for topic in ("a", "c")] == [1, 1]


def test_a_deleted_partition_on_a_failed_folder_is_let_go(folders: Folders) -> None:
    logs = [folders.log("t", index) for index in range(2)]
    bad = next(log for log in logs if folder_of(log) == "/one")
    bad.fail(OSError(errno.EIO, "gone"))
    folders.manager.delete_log_soon("t", bad.partition)
    assert folders.manager.get("t", bad.partition) is None


def test_reads_go_on_while_the_disk_is_full(rig: Rig) -> None:
    log = rig.log()
    append(log, keyed((b"a", b"1")))
    disk = FullDisk(memory(rig))
    with pytest.raises(KafkaStorage, match="no room"):
        append(log)
    assert bytes(read(log, 0)).endswith(b"a\x02" + b"1\x00")
    disk.free()
