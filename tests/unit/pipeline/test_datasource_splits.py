"""How large the ranges of Spark's tasks are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource import splits
from odradek_pipeline.datasource.splits import Split
from storage.files import OsFileSystem
from tests.unit.pipeline.source_files import CONFIG, fill, folder, reader_of, segments
from tests.unit.storage.support import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Forty batches of a few hundred bytes, in segments of a few."""
    rig = Rig(OsFileSystem(), CONFIG, str(tmp_path / "data"))
    fill(rig, 40)
    return rig


def sizes(rig: Rig, **options: str) -> list[int]:
    """The bytes of each task."""
    tasks = [task for task in reader_of(rig.root, **options).partitions() if isinstance(task, Split)]
    return [sum(piece.size for piece in task.pieces) for task in tasks]


def total(rig: Rig) -> int:
    return sum(path.stat().st_size for path in segments(rig))


def test_a_partition_that_is_small_enough_is_one_task(rig: Rig) -> None:
    assert sizes(rig) == [total(rig)]


@pytest.mark.parametrize("most", [700, 1500, 3000])
def test_tasks_are_cut_to_the_bytes_asked_for_and_have_all(rig: Rig, most: int) -> None:
    found = sizes(rig, splitBytes=str(most))
    assert sum(found) == total(rig)
    assert max(found) <= most
    assert len(found) <= 2 * total(rig) // most + 1


def test_segments_are_cut_too(rig: Rig) -> None:
    found = sizes(rig, splitBytes="300")
    assert sum(found) == total(rig)
    assert len(found) > len(segments(rig))


def test_more_tasks_are_cut_when_more_are_wanted(rig: Rig) -> None:
    assert len(sizes(rig, minPartitions="5")) >= 5


def test_small_partitions_share_a_task(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 4):
        shutil.copytree(folder(rig), f"{rig.root}/t-{number}")
    assert sizes(rig) == [4 * total(rig)]
    monkeypatch.setattr(splits, "SMALL_BYTES", 2 * total(rig) + 1)
    assert sizes(rig) == [2 * total(rig)] * 2
