"""`odradek-pipeline audit --replicas` finds each planted fault of one log: sequences, transactions, ends, commits."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from protocol.records.batch import BatchHeader, pack_header, write_crc
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.pipeline.audited import ABORTED, MARKER, TOPIC, audit
from tests.unit.pipeline.restored import batches, broker_folder, copies
from tests.unit.storage.cleaner.cleaning import end_txn
from tests.unit.storage.support import NOW, Rig, append

COMMITTED = 12
"""The offset of a batch of the committed transaction, in partition 0."""


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return copies(broker_folder(tmp_path / "data"), "first", "second")


def faults(folders: list[Path], topic: str = TOPIC) -> list[tuple[str, int, str]]:
    """(kind, offset, text) of what is wrong with the second log of partition 0; the first one is whole."""
    given = [argument for folder in folders for argument in ("--replicas", folder)]
    _, result = audit("--topic", topic, *given)
    first, second = next(one for one in result["replicas"] if not one["partition"])["replicas"]
    assert first["faults"] == []
    return [(fault["kind"], fault["offset"], fault["text"]) for fault in second["faults"]]


def rewrite(folder: Path, offset: int, change: Callable[[BatchHeader], BatchHeader]) -> None:
    """Give the batch at an offset of partition 0 another header, with the CRC for it."""
    (found,) = (one for one in batches(folder) if one[2].base_offset <= offset < one[2].next_offset)
    log, position, header = found
    content = bytearray(log.read_bytes())
    content[position : position + 61] = pack_header(change(header))
    write_crc(content, position, header.size)
    log.write_bytes(content)


def remove(folder: Path, offset: int) -> None:
    """Take a batch out of partition 0, as if it had never been written."""
    (found,) = (one for one in batches(folder) if one[2].base_offset <= offset < one[2].next_offset)
    log, position, header = found
    content = log.read_bytes()
    log.write_bytes(content[:position] + content[position + header.size :])


def test_a_sequence_number_of_an_idempotent_producer_that_does_not_follow_is_found(folders: list[Path]) -> None:
    rewrite(folders[1], COMMITTED, lambda header: header._replace(base_sequence=header.base_sequence + 3))
    found = faults(folders)
    assert [(kind, offset) for kind, offset, _ in found] == [("sequence", COMMITTED), ("sequence", COMMITTED + 5)]
    assert found[0][2] == "producer 7: sequence 9 where 6 follows"


def test_a_batch_that_is_not_there_shows_in_the_sequence_numbers(folders: list[Path]) -> None:
    remove(folders[1], COMMITTED)
    assert [(kind, offset) for kind, offset, _ in faults(folders)] == [("sequence", COMMITTED + 5)]


def test_a_producer_epoch_that_goes_back_is_found(folders: list[Path]) -> None:
    rewrite(folders[1], COMMITTED, lambda header: header._replace(producer_epoch=4))
    assert ("producer-epoch", COMMITTED + 5, "producer 7: epoch 0 after 4") in faults(folders)


def test_an_aborted_transaction_that_the_transaction_index_lacks_is_found(folders: list[Path]) -> None:
    for path in (folders[1] / f"{TOPIC}-0").glob("*.txnindex"):
        path.unlink()
    ((kind, offset, text),) = faults(folders)
    assert (kind, offset) == ("transaction", MARKER)
    assert f"the transaction from {ABORTED} was aborted, and is not in the transaction index" in text


def test_an_abort_in_the_transaction_index_that_the_log_has_not_is_found(folders: list[Path]) -> None:
    (path,) = (folders[1] / f"{TOPIC}-0").glob("*.txnindex")
    with path.open("ab") as file:
        file.write(struct.pack(">hqqqq", 0, 7, 7, 9, 10))
    ((kind, offset, text),) = faults(folders)
    assert (kind, offset, "the log has none" in text) == ("transaction", 9, True)


def test_a_marker_that_is_not_there_leaves_a_transaction_open_and_its_index_without_reason(folders: list[Path]) -> None:
    remove(folders[1], MARKER)
    assert ("transaction", MARKER) in [(kind, offset) for kind, offset, _ in faults(folders)]


def test_a_log_that_ends_before_the_high_watermark_is_cut(folders: list[Path]) -> None:
    for folder in folders:
        (folder / "replication-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 28\n")
    log, position, header = batches(folders[1])[-1]
    log.write_bytes(log.read_bytes()[:position])
    text = "the log ends here, and its broker had come to 28"
    assert faults(folders) == [("cut", header.base_offset, text)]


def test_a_log_whose_last_segment_is_gone_is_cut(folders: list[Path]) -> None:
    for folder in folders:
        (folder / "replication-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 28\n")
    last = batches(folders[1])[-1][0]
    for path in last.parent.glob(f"{last.stem}.*"):
        path.unlink()
    assert [(kind, offset) for kind, offset, _ in faults(folders)] == [("cut", int(last.stem))]


# -- commits that go back


def commit(group: str, offset: int | None, partition: int = 0) -> Record:
    """A record of `__consumer_offsets` (Kafka's OffsetCommitKey and -Value, version 1 and 3)."""
    names = b"".join(struct.pack(">h", len(name)) + name for name in (group.encode(), b"orders"))
    key = struct.pack(">h", 1) + names + struct.pack(">i", partition)
    value = None if offset is None else struct.pack(">hqihq", 3, offset, -1, 0, NOW)
    return Record(0, NOW, key, value)


def offsets_log(root: Path, write: Callable[[Callable[..., None], Any], None]) -> dict[Any, Any]:
    """What the audit of a folder with commits finds."""
    rig = Rig(OsFileSystem(), LogConfig(), str(root))
    log = rig.log("__consumer_offsets", 0)

    def put(*records: Record, producer: int | None = None, sequence: int = 0) -> None:
        shifted = [record._replace(offset=at) for at, record in enumerate(records)]
        options: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        made = build_batch(shifted, **(options | {"transactional": True} if producer is not None else {}))
        append(log, memoryview(made))

    write(put, log)
    rig.manager.close()
    status, result = audit("--topic", "__consumer_offsets", "--replicas", root)
    (found,) = result["replicas"]
    assert status == (1 if found["commits_that_go_back"] else 0)
    return {(back["group"], back["partition"]): (back["from"], back["to"]) for back in found["commits_that_go_back"]}


def test_a_commit_that_goes_back_is_found_in_the_group_and_partition_alone(tmp_path: Path) -> None:
    def write(put: Callable[..., None], _: Any) -> None:
        put(commit("a", 10), commit("a", 50, 1), commit("b", 7))
        put(commit("a", 20), commit("a", 40, 1), commit("b", 7))

    assert offsets_log(tmp_path / "data", write) == {("a", 1): (50, 40)}


def test_a_commit_after_the_group_s_offset_was_removed_does_not_go_back(tmp_path: Path) -> None:
    def write(put: Callable[..., None], _: Any) -> None:
        put(commit("a", 10))
        put(commit("a", None))
        put(commit("a", 3))

    assert offsets_log(tmp_path / "data", write) == {}


@pytest.mark.parametrize(("committed", "found"), [(True, {("a", 0): (30, 20)}), (False, {})])
def test_a_transaction_s_commit_counts_when_it_ends_and_if_it_is_committed(
    tmp_path: Path, committed: bool, found: dict[Any, Any]
) -> None:
    def write(put: Callable[..., None], log: Any) -> None:
        put(commit("a", 20), producer=9)
        put(commit("a", 30))
        end_txn(log, 9, commit=committed)

    assert offsets_log(tmp_path / "data", write) == found
