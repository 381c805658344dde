"""`lake --keep-snapshots` and `--keep-days`: old snapshots go with their files, and a batch is still written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")
pytest.importorskip("pyiceberg", reason="requirements-pipeline.txt is not installed")

import deltalake

from odradek import Broker
from odradek_pipeline.files import Files
from odradek_pipeline.lake.state import Checkpoint
from odradek_pipeline.lake.tables import BATCH_PROPERTY, make_table
from tests.pipeline import readers
from tests.pipeline.lakes import Lake, create_topic, produce

pytestmark = pytest.mark.torture  # many batches, each with merges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Lake:
    return Lake(spark, broker.bootstrap_servers, tmp_path / "lake")


def test_old_snapshots_go_but_the_one_that_a_retry_looks_for_stays(lake: Lake, topic: str, warehouse: Path) -> None:
    """Others commit to the table, too: they push the newest batch's snapshot out of the last two."""
    create_topic(lake.bootstrap, topic)
    produce(lake.bootstrap, topic, [b"%d" % number for number in range(4)])
    given = {"table_format": "iceberg", "keep_snapshots": 2, "keep_days": 0.0, "optimize_every": 2}
    assert lake.run(topic, **given, max_offsets=1) == {}
    table = readers.iceberg(warehouse / topic)
    assert len(table.snapshots()) == 2
    on_disk = {str(path) for path in (warehouse / topic / "data").rglob("*.parquet")}
    newest = {task.file.file_path.removeprefix("file:") for task in table.scan().plan_files()}
    assert newest <= on_disk
    assert len(on_disk) < 4 + 2, "files that were compacted are still there"

    for _ in range(3):
        lake.spark.sql(f"INSERT INTO odradek_lake.`{topic}` SELECT * FROM odradek_lake.`{topic}` LIMIT 0")
    settings = lake.settings(topics=(topic,), **given)
    checkpoint = Checkpoint(Files(lake.spark), settings.checkpoint(topic))
    state = checkpoint.load()
    assert state is not None
    make_table(Files(lake.spark), lake.spark, settings, topic).expire(lake.spark, settings, state.run)
    summaries = [snapshot.summary for snapshot in readers.iceberg(warehouse / topic).snapshots()]
    assert len(summaries) > 2
    assert any(summary and summary[BATCH_PROPERTY] == f"{state.run}:3" for summary in summaries)
    for name in ("3", ".3.crc"):
        (lake.path / "@checkpoints" / topic / "records" / "0" / "commits" / name).unlink()
    assert lake.run(topic, **given) == {}
    assert sorted(row["offset"] for row in readers.rows("iceberg", warehouse / topic)) == [0, 1, 2, 3]


def test_files_of_rows_that_were_written_over_go_from_a_delta_table(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    given = {"upsert": (topic,), "keep_snapshots": 2, "max_offsets": 1}
    for days, wanted in ((None, 2), (0.0, 1)):
        for value in (b"1", b"2"):
            produce(lake.bootstrap, topic, [value], key=b"k")
        assert lake.run(topic, **given, keep_days=days) == {}
        assert len(list((lake.path / topic).rglob("*.parquet"))) == wanted
    assert [row["value"] for row in readers.rows("delta", lake.path / topic)] == [b"2"]
    assert len(deltalake.DeltaTable(str(lake.path / topic)).file_uris()) == 1


def test_guards_of_deleted_keys_are_forgotten_after_their_days(lake: Lake, topic: str) -> None:
    create_topic(lake.bootstrap, topic)
    given = {"upsert": (topic,), "keep_snapshots": 2, "max_offsets": 1}
    produce(lake.bootstrap, topic, [b"1", None], key=b"k")
    assert lake.run(topic, **given) == {}
    guards = lake.path / f"{topic}@deleted-keys"
    assert [row["key"] for row in readers.rows("delta", guards)] == [b"k"]
    produce(lake.bootstrap, topic, [b"1", b"2"], key=b"other")
    assert lake.run(topic, **given, tombstones_days=0.0) == {}
    assert readers.rows("delta", guards) == []
