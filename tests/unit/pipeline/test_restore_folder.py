"""`odradek-pipeline restore --from-data`: logs out of whole, damaged and several folders, into a folder."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.protocol.topic_partition import TopicPartition
from odradek_pipeline.restore.folders import Folders
from odradek_pipeline.restore.into_data import IntoData
from protocol.records.build import ControlRecordType, read_control_batch
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.pipeline.audited import ABORTED, MARKER, TOPIC, audit, rows, write
from tests.unit.pipeline.restored import (
    batches,
    broker_folder,
    content,
    copies,
    lost,
    misplace,
    other_cluster,
    restore,
    spoil,
)
from tests.unit.storage.support import Rig, contents


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_folder(tmp_path / "data")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return other_cluster(tmp_path / "other")


def is_whole(tmp_path: Path, folder: Path) -> bool:
    """Whether an audit finds in the folder exactly the records that the topic had."""
    table = tmp_path / "rows"
    shutil.rmtree(table, ignore_errors=True)
    return audit("--topic", TOPIC, "--data", folder, "--table", write(table, rows()), "--up-to", "end")[0] == 0


def test_a_new_folder_gets_each_batch_as_it_was_and_the_metadata_of_the_cluster(data: Path, tmp_path: Path) -> None:
    status, result = restore("--from-data", data, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    for partition in (0, 1):
        assert content(tmp_path / "new", partition) == content(data, partition)
    assert [log.name for log, _, _ in batches(tmp_path / "new")] == [log.name for log, _, _ in batches(data)]
    assert (tmp_path / "new/__cluster_metadata-0/quorum-state").exists()
    assert (tmp_path / "new/meta.properties").read_text() == (data / "meta.properties").read_text()
    assert not (tmp_path / "new/odradek-restore.json").exists()
    assert audit("--replicas", data, "--replicas", tmp_path / "new", "--topic", TOPIC)[0] == 0
    assert is_whole(tmp_path, tmp_path / "new")


def test_a_folder_of_another_cluster_gets_the_committed_records_at_their_offsets(
    data: Path, other: Path, tmp_path: Path
) -> None:
    status, _ = restore("--from-data", data, "--into-data", other, "--topic", TOPIC)
    assert status == 0
    headers = [header for _, _, header in batches(other)]
    assert not any(header.is_transactional or header.is_control or header.has_producer_id for header in headers)
    assert {header.leader_epoch for header in headers} == {0}
    assert headers[-1].next_offset == 28  # as before, where a marker was the last
    assert is_whole(tmp_path, other)


def test_leader_epochs_are_kept_where_the_topic_is_the_same(data: Path, other: Path) -> None:
    later = [(log, position, header) for log, position, header in batches(data, 1) if header.base_offset >= 20]
    for log, position, _ in later:
        changed = bytearray(log.read_bytes())
        changed[position + 15] = 3
        log.write_bytes(changed)
    for number in (0, 1):
        shutil.copy(data / f"{TOPIC}-{number}/partition.metadata", other / f"{TOPIC}-{number}/partition.metadata")
    assert restore("--from-data", data, "--into-data", other)[0] == 0
    assert {(header.base_offset >= 20, header.leader_epoch) for _, _, header in batches(other, 1)} == {
        (False, 0),
        (True, 3),
    }
    assert (other / f"{TOPIC}-1/leader-epoch-checkpoint").read_text().split() == ["0", "2", "0", "0", "3", "20"]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("harm", [spoil, lambda folder, offset, partition: misplace(folder, offset, 9999, partition)])
def test_damage_of_one_replica_is_mended_from_another(
    data: Path, tmp_path: Path, harm: Callable[[Path, int, int], object], order: int
) -> None:
    first, second = copies(data, "first", "second")
    harm(first, 12, 1)
    harm(second, 22, 1)
    (second / f"{TOPIC}-0" / batches(second)[0][0].name).unlink()
    given = [argument for folder in (first, second)[::order] for argument in ("--from-data", folder)]
    status, result = restore(*given, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    assert content(tmp_path / "new", 0) == content(data, 0)
    assert content(tmp_path / "new", 1) == content(data, 1)


def test_what_is_damaged_in_all_replicas_is_lost_and_named(data: Path, tmp_path: Path) -> None:
    first, second = copies(data, "first", "second")
    header = spoil(first, 12, 1)
    spoil(second, 12, 1)
    status, result = restore("--from-data", first, "--from-data", second, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (1, {1: [[header.base_offset, header.next_offset - 1]]})
    assert any("its CRC is wrong" in text for text in result["partitions"][1]["damage"])
    kept = [one for _, _, one in batches(data, 1) if one != header]
    assert [one for _, _, one in batches(tmp_path / "new", 1)] == kept


def test_no_segment_begins_behind_a_gap(data: Path, tmp_path: Path) -> None:
    """A broker that recovers would remove it, with all that follow."""
    header = spoil(data, int(batches(data, 1)[-1][0].name[:20]), 1)
    status, result = restore("--from-data", data, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (1, {1: [[header.base_offset, header.next_offset - 1]]})
    rig = Rig(OsFileSystem(), LogConfig(), str(tmp_path / "new"))
    assert (rig.log(TOPIC, 1).log_end_offset, len(contents(rig.log(TOPIC, 1)))) == (40, len(batches(data, 1)) - 1)
    rig.manager.close()


def test_the_replica_with_the_latest_leader_epoch_says_what_the_log_is(data: Path, tmp_path: Path) -> None:
    first, second = copies(data, "first", "second")
    last = batches(first, 1)[-1]
    position, changed = last[1], bytearray(last[0].read_bytes())
    changed[position + 15] = 4
    last[0].write_bytes(changed)
    longer = second / f"{TOPIC}-1" / last[0].name
    more = bytearray(longer.read_bytes()[position:])
    more[7] = 40  # its offset: beyond the log of the leader of epoch 4
    longer.write_bytes(longer.read_bytes() + more)
    assert restore("--from-data", second, "--from-data", first, "--into-data", tmp_path / "new")[0] == 0
    assert [(one.base_offset, one.leader_epoch) for _, _, one in batches(tmp_path / "new", 1)][-1] == (35, 4)


def test_a_lost_abort_marker_is_made_again_from_the_transaction_index(data: Path, other: Path, tmp_path: Path) -> None:
    header = spoil(data, MARKER)
    status, result = restore("--from-data", data, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    (made,) = (one for one in batches(tmp_path / "new") if one[2].base_offset == MARKER)
    control = read_control_batch(made[0].read_bytes()[made[1] :], made[2])
    assert control is not None
    assert control[0] is not None
    assert (control[0].type, made[2].producer_id) == (ControlRecordType.ABORT, header.producer_id)
    assert is_whole(tmp_path, tmp_path / "new")  # without the aborted record
    assert restore("--from-data", data, "--into-data", other)[0] == 0
    assert is_whole(tmp_path, other)
    assert ABORTED not in {one.base_offset for _, _, one in batches(other)}


def test_an_open_transaction_is_not_committed_by_a_restore(data: Path, other: Path) -> None:
    log, position, marker = batches(data)[-1]
    assert marker.is_control
    log.write_bytes(log.read_bytes()[:position])
    assert restore("--from-data", data, "--into-data", other)[0] == 0
    found = [header for _, _, header in batches(other)]
    assert [header.base_offset for header in found if header.record_count] == [0]
    assert found[-1].next_offset == marker.base_offset


def test_compaction_of_one_replica_is_not_undone_by_another(data: Path, tmp_path: Path) -> None:
    first, second = copies(data, "first", "second")
    log, position, header = batches(first, 1)[1]
    whole = log.read_bytes()
    log.write_bytes(whole[:position] + whole[position + header.size :])
    for folder, cleaned in ((first, 30), (second, 0)):
        (folder / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 1 {cleaned}\n")
    status, result = restore("--from-data", first, "--from-data", second, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    assert header.base_offset not in {one.base_offset for _, _, one in batches(tmp_path / "new", 1)}


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_batches_can_be_compressed_in_another_way(data: Path, tmp_path: Path, compression: str) -> None:
    status, _ = restore("--from-data", data, "--into-data", tmp_path / "new", "--compression", compression)
    assert status == 0
    codes = {header.compression for _, _, header in batches(tmp_path / "new", 1)}
    assert codes == {["none", "gzip", "", "lz4", "zstd"].index(compression)}
    assert is_whole(tmp_path, tmp_path / "new")


def test_the_log_start_is_kept(data: Path, tmp_path: Path) -> None:
    (data / "log-start-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 1 17\n")
    assert restore("--from-data", data, "--into-data", tmp_path / "new")[0] == 0
    assert f"{TOPIC} 1 17" in (tmp_path / "new/log-start-offset-checkpoint").read_text()
    assert batches(tmp_path / "new", 1)[0][2].base_offset == 15


def test_a_topic_that_was_emptied_hides_no_restored_records(data: Path, other: Path, tmp_path: Path) -> None:
    names = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint")
    for name in names:
        (other / name).write_text(f"0\n1\n{TOPIC} 1 30\n")
    assert restore("--from-data", data, "--into-data", other)[0] == 0
    for name in names:
        assert f"{TOPIC} 1 0" in (other / name).read_text()
    assert is_whole(tmp_path, other)


@pytest.mark.parametrize("cleaned", [0, 100])
def test_a_log_goes_as_far_as_its_last_segment_even_if_that_is_empty(
    data: Path, other: Path, tmp_path: Path, cleaned: int
) -> None:
    (data / f"{TOPIC}-1/{100:020d}.log").touch()
    (data / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 1 {cleaned}\n")
    for folder in (tmp_path / "new", other):
        status, result = restore("--from-data", data, "--into-data", folder)
        assert (status, lost(result)) == ((0, {}) if cleaned else (1, {1: [[40, 99]]}))
        assert result["partitions"][1]["end"] == 100
        assert f"{TOPIC} 1 100" in (folder / "replication-offset-checkpoint").read_text()
    assert (tmp_path / f"new/{TOPIC}-1/{100:020d}.log").exists() == bool(cleaned)
    assert batches(tmp_path / "new", 1)[-1][2].next_offset == (40 if cleaned else 100)
    assert batches(other, 1)[-1][2].next_offset == 100


def test_a_folder_that_was_restored_into_has_no_offsets_that_look_lost(data: Path, other: Path, tmp_path: Path) -> None:
    assert restore("--from-data", data, "--into-data", other)[0] == 0  # without the aborted record and the markers
    third = other_cluster(tmp_path / "third")
    status, result = restore("--from-data", other, "--into-data", third)
    assert (status, lost(result)) == (0, {})
    assert is_whole(tmp_path, third)
    records = write(tmp_path / "records", rows())
    fourth, fifth = other_cluster(tmp_path / "fourth"), other_cluster(tmp_path / "fifth")
    assert restore("--from-table", records, "--topic", TOPIC, "--into-data", fourth)[0] == 0
    assert restore("--from-data", fourth, "--into-data", fifth)[0] == 0


class KilledError(Exception):
    """What ends the process in the middle."""


def test_a_restore_that_was_killed_goes_on_and_no_other_may_begin(data: Path, tmp_path: Path) -> None:
    seen = []

    def killed(offsets: int) -> None:
        seen.append(offsets)
        if sum(seen) > 30:
            raise KilledError

    source = Folders((str(data),), ())
    with pytest.raises(KilledError):
        IntoData(tmp_path / "new", progress=killed).whole(source, ())
    state = json.loads((tmp_path / "new/odradek-restore.json").read_text())
    assert (state["done"], state["writing"]) == ([f"{TOPIC}-0"], f"{TOPIC}-1")
    (tmp_path / "copy").mkdir()
    status, result = restore("--from-data", copies(data, "elsewhere")[0], "--into-data", tmp_path / "new")
    assert (status, "repeat that one" in result["text"]) == (2, True)
    assert restore("--from-data", data, "--into-data", tmp_path / "new")[0] == 0
    assert content(tmp_path / "new", 1) == content(data, 1)


def test_a_restore_that_was_killed_in_its_first_write_can_be_repeated(data: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "odradek-restore.json.tmp").write_text("{")
    assert restore("--from-data", data, "--into-data", new)[0] == 0
    assert sorted(path.name for path in new.glob("odradek*")) == []


def test_a_broker_that_ran_on_half_a_restore_is_noticed(data: Path, other: Path) -> None:
    source = Folders((str(data),), ())

    def killed(_: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        IntoData(other, progress=killed).records(source, ())
    (other / ".kafka_cleanshutdown").touch()
    status, result = restore("--from-data", data, "--into-data", other)
    assert (status, "it may have written there" in result["text"]) == (2, True)


def test_a_folder_with_records_is_refused_and_stays_as_it_is(data: Path, other: Path) -> None:
    shutil.copy(batches(data)[0][0], other / f"{TOPIC}-0")
    before = content(other)
    status, result = restore("--from-data", data, "--into-data", other)
    assert (status, "nothing was changed" in result["text"]) == (2, True)
    assert content(other) == before
    assert not (other / "odradek-restore.json").exists()


def test_a_topic_that_the_other_cluster_has_not_is_refused(data: Path, tmp_path: Path) -> None:
    status, result = restore("--from-data", data, "--into-data", other_cluster(tmp_path / "small", partitions=1))
    assert (status, "create the topic" in result["text"]) == (2, True)


def test_a_new_folder_needs_the_metadata_of_a_cluster(data: Path, tmp_path: Path) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")
    status, result = restore("--from-data", data, "--into-data", tmp_path / "new")
    assert (status, "has no metadata of a cluster" in result["text"]) == (2, True)


def test_a_folder_in_use_is_refused(data: Path, other: Path) -> None:
    with (other / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status, result = restore("--from-data", data, "--into-data", other)
    assert (status, "stop it first" in result["text"]) == (2, True)


def test_a_topic_that_is_nowhere_is_named(data: Path, tmp_path: Path) -> None:
    status, result = restore("--from-data", data, "--topic", "nothing", "--into-data", tmp_path / "new")
    assert (status, "nothing" in result["text"]) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_difference_after_the_restore_is_found(data: Path, tmp_path: Path) -> None:
    source = Folders((str(data),), ())
    root = tmp_path / "new"

    def harm(_: int) -> None:
        if (root / f"{TOPIC}-1").exists() and not harmed:
            harmed.append(spoil(root, 12))

    harmed: list[object] = []
    written = IntoData(root, progress=harm).whole(source, ())
    assert harmed
    assert [one.ok for one in written] == [False, True]
    assert written[0].partition == TopicPartition(TOPIC, 0)
    assert "is not that of the source" in written[0].differences[0]
    assert (root / "odradek-restore.json").exists()
