"""Opening, recovering, creating and deleting logs; the files around them, byte for byte."""

from __future__ import annotations

import errno

import pytest

from protocol import uuids
from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.files import OsFileSystem, read_file, write_file_atomically
from storage.folders.log_checkpoints import OffsetCheckpoint
from storage.folders.log_dirs import LogDirError, LogDirs
from storage.folders.log_names import delete_name, parse
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, batch, contents, create_log

LOG = "/data/t-0/00000000000000000000.log"
INDEX = "/data/t-0/00000000000000000000.index"
TIME_INDEX = "/data/t-0/00000000000000000000.timeindex"
DENSE = LogConfig(index_interval_bytes=1)


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def put(fs: MemoryFileSystem, path: str, data: bytes) -> None:
    write_file_atomically(fs, path, data)


# -- the files around the logs


def test_meta_properties_is_kafkas(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    lines = read_file(fs, "/data/meta.properties").decode().splitlines()
    assert lines[:2] == ["#", "#Tue Nov 14 22:13:20 UTC 2023"]
    assert set(lines[2:]) == {
        "version=1",
        "node.id=1",
        f"cluster.id={rig.dirs.cluster_id}",
        f"directory.id={rig.dirs.dirs[0].directory_id}",
    }
    before = rig.dirs.dirs[0].directory_id
    rig.restart()
    assert rig.dirs.dirs[0].directory_id == before


def test_partition_metadata_holds_the_topic_id(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    rig.log()
    assert read_file(fs, "/data/t-0/partition.metadata") == f"version: 0\ntopic_id: {uuids.to_text(TOPIC_ID)}".encode()
    assert rig.restart().topic_id == TOPIC_ID


def test_a_clean_stop_writes_checkpoints_and_the_clean_shutdown_file(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    rig.log("u", 3)
    rig.manager.close(broker_epoch=12)
    assert read_file(fs, "/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 1\nu 3 0\n"
    assert read_file(fs, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    rig.reopen()
    assert not fs.exists("/data/.kafka_cleanshutdown")
    assert (rig.dirs.dirs[0].clean, rig.dirs.dirs[0].closed_in) == (True, 12)
    rig.kill()
    assert (rig.dirs.dirs[0].clean, rig.dirs.dirs[0].closed_in) == (False, -1)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"brokerEpoch": "no"}', b"\xff", b'{"brokerEpoch": Infinity}', b"[" * 9999]
)
def test_a_damaged_clean_shutdown_file_counts_though_it_does_not_tell_the_epoch(
    fs: MemoryFileSystem, content: bytes
) -> None:
    rig = Rig(fs)
    rig.manager.close(broker_epoch=12)
    write_file_atomically(fs, "/data/.kafka_cleanshutdown", content)
    rig.reopen()
    assert (rig.dirs.dirs[0].clean, rig.dirs.dirs[0].closed_in) == (True, -1)


def test_a_log_that_went_offline_spoils_the_clean_shutdown(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    rig.log().fail(OSError("gone"))
    rig.manager.close()
    assert not fs.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("content", [b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"nonsense"])
def test_an_unreadable_checkpoint_counts_as_none(fs: MemoryFileSystem, content: bytes) -> None:
    rig = Rig(fs)
    append(rig.log())
    put(fs, "/data/recovery-point-offset-checkpoint", content)
    assert len(contents(rig.kill())) == 1


def test_checkpoints_written_are_read_back(fs: MemoryFileSystem) -> None:
    fs.mkdir("/data")
    checkpoint = OffsetCheckpoint(fs, "/data", "replication-offset-checkpoint")
    assert checkpoint.read() == {}
    offsets = {TopicPartition("a-b", 0): 5, TopicPartition("c", 12): 1 << 40}
    checkpoint.write(lambda: offsets)
    assert checkpoint.read() == offsets


def _half_written(fs: MemoryFileSystem) -> OffsetCheckpoint:
    """It had partition 0 alone; partition 1 came in with a write that failed after the file had its name."""
    fs.mkdir("/data")
    checkpoint = OffsetCheckpoint(fs, "/data", "recovery-point-offset-checkpoint")
    checkpoint.write(lambda: {TopicPartition("t", 0): 5})
    fs.inject(Fault("fsync_dir", 1, errno.ENOSPC))
    with pytest.raises(OSError):
        checkpoint.write(lambda: {TopicPartition("t", 0): 5, TopicPartition("t", 1): 9})
    return checkpoint


def test_after_a_checkpoint_was_half_written_what_it_had_before_is_written_again(fs: MemoryFileSystem) -> None:
    checkpoint = _half_written(fs)
    before = {TopicPartition("t", 0): 5}
    checkpoint.write(lambda: before)
    assert checkpoint.read() == before


def test_a_half_written_checkpoint_tells_a_partition_that_it_may_have(fs: MemoryFileSystem) -> None:
    checkpoint = _half_written(fs)
    fs.inject(Fault("rename", 1, errno.ENOSPC))
    with pytest.raises(OSError):
        checkpoint.write(lambda: {TopicPartition("t", 0): 5})
    assert TopicPartition("t", 1) in checkpoint


# -- whose folder it is


def test_a_folder_in_use_is_refused(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    with pytest.raises(LogDirError, match=r"lock.*/data"):
        rig.open()
    rig.manager.close()
    rig.open()


def test_two_processes_cannot_share_a_real_folder(tmp_path: object) -> None:
    rig = Rig(OsFileSystem(), root=str(tmp_path))
    with pytest.raises(LogDirError, match=r"\.lock"):
        rig.open()
    rig.manager.close()


def test_meta_properties_of_another_node_or_cluster_is_refused(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    rig.manager.close()
    for node_id, cluster_id, text in ((2, None, "node 1"), (1, "x" * 22, "belongs to cluster")):
        with pytest.raises(LogDirError, match=text):
            LogDirs.open(fs, ["/data"], node_id=node_id, new_id=rig.new_id, now_ms=NOW, cluster_id=cluster_id)
    rig.open()


# -- recovery


def test_a_torn_last_batch_is_cut_off(fs: MemoryFileSystem) -> None:
    rig = Rig(fs, DENSE)
    for _ in range(3):
        append(rig.log())
    data = read_file(fs, LOG)
    put(fs, LOG, data[:-1])
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
    put(fs, LOG, bytes(data))
    log = rig.kill()
    assert log.log_end_offset == 1
    assert len(log.segments) == 1
    assert not fs.exists("/data/t-0/00000000000000000002.log")


def test_zeros_after_the_last_batch_are_cut_off(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    put(fs, LOG, read_file(fs, LOG) + bytes(5000))
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
            put(fs, path, b"")
        case "garbage":
            put(fs, path, b"\xff" * len(content))
        case "cut short":
            put(fs, path, content[:-1])
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
    put(fs, LOG + ".deleted", b"x")
    put(fs, "/data/t-0/00000000000000000009.log.cleaned", b"x")
    put(fs, "/data/t-0/00000000000000000009.log.swap", b"x")
    put(fs, "/data/t-0/00000000000000000007.index", b"")
    compacted = data[len(data) // 2 :]
    for suffix, content in ((".log", compacted), (".index", b""), (".timeindex", b"")):
        put(fs, f"/data/t-0/00000000000000000000{suffix}.swap", content)
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


def test_a_log_start_checkpointed_survives_and_one_past_the_end_starts_anew(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    log = rig.log()
    for _ in range(4):
        append(log)
    log.increment_log_start_offset(3)
    rig.manager.checkpoint_log_start_offsets()
    log = rig.kill()
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)
    put(fs, "/data/log-start-offset-checkpoint", b"0\n1\nt 0 10\n")
    log = rig.kill()
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_idle_logs_hold_no_descriptors(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    for partition in range(20):
        append(rig.log("t", partition))
    rig.restart()
    assert fs.open_files == 0


# -- creating and deleting


def test_a_deleted_log_is_renamed_and_removed_later(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    rig.manager.delete_log_soon("t", 0)
    assert rig.manager.get("t", 0) is None
    folders = [name for name in fs.listdir("/data") if fs.is_dir(f"/data/{name}")]
    assert len(folders) == 1
    assert folders[0].startswith("t-0.")
    assert folders[0].endswith("-delete")
    assert append(rig.log()).first_offset == 0
    rig.clock.advance(60_000)
    rig.workers.run_all()
    assert [name for name in fs.listdir("/data") if fs.is_dir(f"/data/{name}")] == ["t-0"]


def test_a_deletion_cut_short_is_finished_at_the_next_start(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    rig.manager.delete_log_soon("t", 0)
    rig.workers.drop_all()
    rig.manager.release()
    rig.manager = rig.open()
    assert rig.manager.logs == {}
    assert [name for name in fs.listdir("/data") if fs.is_dir(f"/data/{name}")] == []


def test_a_deletion_due_after_the_stop_is_left_to_the_next_start(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    append(rig.log())
    rig.manager.delete_log_soon("t", 0)
    rig.manager.close()
    rig.workers.drop_all()
    rig.clock.advance(60_000)
    assert rig.workers.waiting == 0
    rig.manager = rig.open()
    assert [name for name in fs.listdir("/data") if fs.is_dir(f"/data/{name}")] == []


@pytest.mark.parametrize("restarted", [False, True], ids=["same process", "restarted between"])
def test_a_partition_made_anew_owes_nothing_to_its_predecessors_checkpoints(
    fs: MemoryFileSystem, restarted: bool
) -> None:
    rig = Rig(fs, LogConfig(segment_bytes=100))
    log = rig.log()
    for _ in range(9):
        append(log)
    rig.workers.run_all()
    log.increment_log_start_offset(8)
    log.cleaned_to = 8
    rig.manager.checkpoint_recovery_points()
    rig.manager.checkpoint_log_start_offsets()
    rig.manager.checkpoint_cleaned_offsets()
    rig.manager.delete_log_soon("t", 0)
    if restarted:
        rig.kill()
    made = rig.log()
    for _ in range(3):
        append(made)
    expected = contents(made)
    found = rig.kill()
    assert (found.log_start_offset, found.cleaned_to) == (0, None)
    assert contents(found) == expected
    fs.crash(Unsynced.LOST)
    assert contents(rig.reopen()) == expected


def test_new_logs_go_to_the_folder_with_the_fewest(fs: MemoryFileSystem) -> None:
    rig = Rig(fs)
    rig.manager.close()
    dirs = LogDirs.open(fs, ["/data", "/more"], node_id=1, new_id=rig.new_id, now_ms=NOW)
    manager = type(rig.manager).open(rig.services, dirs, lambda _: rig.config, new_id=rig.new_id)
    for partition in range(4):
        create_log(manager, "t", partition, TOPIC_ID, rig.config)
    roots = [log.folder.split("/")[1] for log in manager.logs.values()]
    assert sorted(roots) == ["data", "data", "more", "more"]


def test_folder_names() -> None:
    assert parse("a-b.c_d-12") == TopicPartition("a-b.c_d", 12)
    for name in ("t-0.0123-delete", "t-0.0123-stray", "lost+found", "t", "t-x"):
        assert parse(name) is None
    assert len(delete_name(TopicPartition("x" * 249, 123), TOPIC_ID)) == 255


@pytest.mark.parametrize(
    ("topic", "partition"),
    [
        ("../../evil", 0),
        ("a/b", 0),
        ("/etc", 0),
        ("..", 0),
        ("", 0),
        ("t\0", 0),
        ("t\n", 0),
        ("x" * 254, 0),
        ("t", -1),
        ("__cluster_metadata", 0),
    ],
)
def test_no_folder_is_made_for_what_a_controller_may_not_call_a_partition(topic: str, partition: int) -> None:
    """Whoever speaks for the controller could else have a broker write, and remove, anywhere on its disks."""
    rig = Rig()
    before = rig.fs.listdir("/data")
    with pytest.raises(KafkaStorage, match="no name of a partition"):
        rig.manager.plan_log(topic, partition, TOPIC_ID, rig.config, leader_epoch=0)
    assert rig.fs.listdir("/data") == before
    assert not rig.manager.placement.folders
