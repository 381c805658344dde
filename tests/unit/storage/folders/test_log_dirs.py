"""Log folders: their files byte for byte, who may use them, and what a clean stop leaves."""

from __future__ import annotations

import pytest

from protocol import uuids
from storage.files import OsFileSystem, read_file, write_file_atomically
from storage.folders.log_dirs import LogDirError, LogDirs
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append


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
