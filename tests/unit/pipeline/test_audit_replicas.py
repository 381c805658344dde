"""`odradek-pipeline audit --replicas`: the folders of several brokers against each other, batch by batch."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from tests.unit.pipeline.audited import TOPIC, audit, fill

SIZE_AT, EPOCH_AT, VALUES_AT = 8, 12, 80
"""Where a batch has its size, its leader epoch, which the CRC does not cover, and some byte of its records."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("replicas") / "data"
    fill(root)
    return root


@pytest.fixture
def folders(whole: Path, tmp_path: Path) -> list[Path]:
    """Three brokers with the same logs."""
    made = [tmp_path / f"broker-{number}" for number in (1, 2, 3)]
    for folder in made:
        shutil.copytree(whole, folder)
    return made


def replicas(*folders: Path, topic: str = TOPIC) -> tuple[int, list[dict[str, Any]]]:
    given = [argument for folder in folders for argument in ("--replicas", folder)]
    status, result = audit("--topic", topic, *given)
    return status, result.get("replicas", [])


def spoil(folder: Path, batch: int, at: int, byte: int) -> int:
    """Write a byte of a batch of partition 1's first file; the batch's base offset."""
    log = sorted((folder / f"{TOPIC}-1").glob("*.log"))[0]
    content = bytearray(log.read_bytes())
    position = 0
    for _ in range(batch):
        position += 12 + struct.unpack_from(">i", content, position + SIZE_AT)[0]
    content[position + at] = byte
    log.write_bytes(content)
    return int(struct.unpack_from(">q", content, position)[0])


def kinds(found: dict[str, Any]) -> list[list[tuple[str, int]]]:
    """By replica, what is wrong with its log and where."""
    return [[(fault["kind"], fault["offset"]) for fault in one["faults"]] for one in found["replicas"]]


def test_replicas_with_the_same_batches_are_ok(folders: list[Path]) -> None:
    status, (first, second) = replicas(*folders)
    assert status == 0
    assert (first["ok"], first["compared_to"], second["compared_to"]) == (True, 28, 40)
    assert kinds(first) == [[], [], []]


def test_the_first_batch_of_another_leader_epoch_is_named_with_what_differs(folders: list[Path]) -> None:
    offset = spoil(folders[1], 1, EPOCH_AT + 3, 9)
    status, (first, second) = replicas(*folders)
    assert (status, first["ok"], second["ok"]) == (1, True, False)
    assert second["first_difference"]["offset"] == offset
    assert second["first_difference"]["what"] == ["leader_epoch"]
    own = kinds(second)
    assert own[0] == own[2] == []
    assert {kind for kind, _ in own[1]} == {"leader-epoch"}


def test_a_batch_whose_crc_is_wrong_is_found_in_its_replica_alone(folders: list[Path]) -> None:
    offset = spoil(folders[2], 1, VALUES_AT, 0xEE)
    status, (_, second) = replicas(*folders)
    assert status == 1
    assert kinds(second)[:2] == [[], []]
    assert ("crc", offset) in kinds(second)[2]
    assert second["first_difference"]["offset"] == offset


def test_a_shorter_replica_is_compared_up_to_its_end(folders: list[Path]) -> None:
    last = sorted((folders[1] / f"{TOPIC}-1").glob("*.log"))[-1]
    for path in last.parent.glob(f"{last.stem}.*"):
        path.unlink()
    (folders[1] / "replication-offset-checkpoint").unlink(missing_ok=True)
    status, (_, second) = replicas(*folders)
    assert (status, second["compared_to"]) == (0, int(last.stem))


def test_a_topic_that_no_folder_has_is_told(folders: list[Path]) -> None:
    assert replicas(*folders, topic="nothing")[0] == 2
