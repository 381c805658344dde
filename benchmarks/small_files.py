"""`lake --optimize-every`: files, and how long a reader takes, with and without it.

python -m benchmarks.small_files [--batches 60] [--every 20] [--records 1000]

A topic with four partitions is copied in that many batches, of so many records of 1 KB each, with `local[2]`; then
delta-rs or pyiceberg reads the whole table. "On disk" are all data files, also those that only earlier versions have:
they go with `--keep-days` and `--keep-snapshots`. Seconds of a read are the median of five.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import deltalake
from pyiceberg.table import StaticTable

from benchmarks.pipeline import MB, RECORD_BYTES, fill
from odradek import Broker

READS = 5


def _copy(spark: Any, bootstrap: str, topic: str, folder: Path, **rest: Any) -> float:
    """Seconds that the job took."""
    from odradek_pipeline.files import Files
    from odradek_pipeline.kafka import Admin, ClusterAddress
    from odradek_pipeline.lake.ingest import IngestServices
    from odradek_pipeline.lake.job import LakeJob
    from odradek_pipeline.lake.progress import Reporter
    from odradek_pipeline.lake.settings import LakeSettings

    cluster = ClusterAddress(bootstrap)
    settings = LakeSettings(cluster, str(folder), (topic,), available_now=True, **rest)
    reporter = Reporter()
    began = time.perf_counter()
    with Admin(spark, cluster) as admin:
        failed = LakeJob(IngestServices(spark, Files(spark), admin, settings, reporter.counted), reporter).run().failed
    if failed:
        raise click.ClickException(str(failed))
    return time.perf_counter() - began


def _delta(table: Path) -> tuple[int, int]:
    """Data files of the newest version, and rows."""
    found = deltalake.DeltaTable(str(table))
    return len(found.file_uris()), found.to_pyarrow_table().num_rows


def _iceberg(table: Path) -> tuple[int, int]:
    version = (table / "metadata" / "version-hint.text").read_text().strip()
    found = StaticTable.from_metadata(str(table / "metadata" / f"v{version}.metadata.json"))
    return len(list(found.scan().plan_files())), found.scan().to_arrow().num_rows


READERS: dict[str, Callable[[Path], tuple[int, int]]] = {"delta": _delta, "iceberg": _iceberg}


def _row(spark: Any, bootstrap: str, folder: Path, table_format: str, every: int, batches: int, records: int) -> None:
    topic = fill(bootstrap, batches * records * RECORD_BYTES // MB)
    seconds = _copy(
        spark, bootstrap, topic, folder, table_format=table_format, max_offsets=records, optimize_every=every
    )
    reads = []
    for _ in range(READS):
        began = time.perf_counter()
        files, rows = READERS[table_format](folder / topic)
        reads.append(time.perf_counter() - began)
    on_disk = len([path for path in (folder / topic).rglob("*.parquet") if path.parent.name != "_delta_log"])
    name = f"{table_format}, {f'every {every}' if every else 'never'}"
    click.echo(f"| {name} | {files} | {on_disk} | {rows} | {statistics.median(reads):.2f} | {seconds:.0f} |")


@click.command(help=__doc__)
@click.option("--batches", default=60, show_default=True)
@click.option("--every", default=20, show_default=True)
@click.option("--records", default=1000, show_default=True, help="in a batch")
def main(batches: int, every: int, records: int) -> None:
    from odradek_pipeline import session

    with tempfile.TemporaryDirectory() as name, Broker(profile="dev") as broker:
        folder = Path(name)
        parts = (session.KAFKA, session.DELTA, session.ICEBERG)
        spark = session.build(session.SessionOptions(master="local[2]", parts=parts, warehouse=name))
        click.echo("| table, compacted | files | on disk | rows | a read, s | the job, s |")
        click.echo("| --- | ---: | ---: | ---: | ---: | ---: |")
        for table_format in READERS:
            for how_often in (0, every):
                _row(spark, broker.bootstrap_servers, folder, table_format, how_often, batches, records)
        spark.stop()


if __name__ == "__main__":
    main()
