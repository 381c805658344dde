"""Logs are created and deleted, under names that are safe."""

from __future__ import annotations

import pytest

from protocol.errors import KafkaStorage
from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.folders.log_dirs import LogDirs
from storage.folders.log_names import delete_name, parse
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, contents, create_log


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
