"""`audit` of a topic whose older segments are in remote storage: they are not missing, and what is lost is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.cli import main
from storage.files import OsFileSystem
from storage.tier.folder import FolderStore
from tests.unit.pipeline.source_files import CONFIG, fill
from tests.unit.pipeline.tiering import TieredCopy
from tests.unit.storage.support import Rig

COUNT = 40


@pytest.fixture
def copy(tmp_path: Path) -> TieredCopy:
    """A log, and its tiered copy."""
    rig = Rig(OsFileSystem(), CONFIG, str(tmp_path / "whole"))
    fill(rig, COUNT)
    store = FolderStore(OsFileSystem(), str(tmp_path / "store"))
    store.check()
    made = TieredCopy(rig.log(), store, tmp_path / "tiered")
    made.tier(local=1)
    made.write_metadata()
    return made


def audit(copy: TieredCopy, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and what there is to say of partition 0: the tiered copy is what the whole log is."""
    arguments = ["audit", "--topic", "t", "--data", str(copy.root.parent / "whole"), "--json", "-", *more]
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, json.loads(result.stdout) if result.stdout.startswith("{") else {"text": result.output}


def test_records_that_are_only_in_the_tier_are_not_missing(copy: TieredCopy) -> None:
    store = str(copy.root.parent / "store")
    status, found = audit(copy, "--against-data", str(copy.root), "--against-tier", store)
    assert (status, found["damage"]) == (0, [])
    status, found = audit(copy, "--against-data", str(copy.root))
    assert status == 1
    status, found = audit(copy, "--against-tier", store, "--tier-config", "tierMetadata=listing")
    assert status == 1  # the tier alone lacks the end


def test_a_remote_segment_that_is_lost_is_missing(copy: TieredCopy) -> None:
    lost = copy.copied[2]
    copy.store.delete(lost)
    store = str(copy.root.parent / "store")
    status, found = audit(copy, "--against-data", str(copy.root), "--against-tier", store)
    assert status == 1
    (partition,) = found["partitions"]
    assert partition["missing"]["count"] == lost.end_offset - lost.start_offset + 1


def test_a_topic_is_in_folders_or_at_brokers_and_never_in_both(copy: TieredCopy) -> None:
    status, found = audit(copy, "--bootstrap", "127.0.0.1:1", "--against-tier", "/t")
    assert status == 2
    assert "either --data (or --tier) or --bootstrap" in found["text"]
    status, found = audit(copy, "--tier", "ftp://x", "--against-tier", str(copy.root.parent / "store"))
    assert status == 2
    assert "s3://BUCKET/PREFIX" in found["text"]


def test_a_secret_key_of_s3_is_in_no_message(copy: TieredCopy, tmp_path: Path) -> None:
    """Of a topic that is not there, the place is told, and not with what."""
    empty = FolderStore(OsFileSystem(), str(tmp_path / "empty"))
    empty.check()
    status, found = audit(copy, "--against-tier", str(tmp_path / "empty"), "--tier-config", "s3SecretKey=hush")
    assert status == 2
    assert f"No partition of t is in {tmp_path}/empty" in found["text"]
    assert "hush" not in found["text"]
