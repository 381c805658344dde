"""`odradek-pipeline restore`: topics out of data folders and backups, into a data folder."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from odradek_pipeline.protocol.records.compression import Compression

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command(short_help="topics from data folders or a backup, into a data folder")
@click.option("--topic", "topics", multiple=True, help="the topic; may be repeated  [default: all]")
@click.option(
    "--from-data",
    "folders",
    multiple=True,
    metavar="DIR",
    help="a data folder, which may be damaged, or a backup; repeat it for the folders of replicas",
)
@click.option("--into-data", metavar="DIR", help="the data folder of a broker that is stopped, or an empty folder")
@click.option("--compression", type=click.Choice(COMPRESSIONS), help="of the new batches  [default: as they are]")
@click.option("--json", "json_path", metavar="FILE", help="write the result as JSON; - for standard output")
def command(topics: tuple[str, ...], folders: tuple[str, ...], json_path: str | None, **given: Any) -> None:
    """Put back the records of topics, with the offsets, times, headers and gaps that they had.

    At the end the result is read and compared with the source. The exit status is 0 if it has all, 1 if records are
    lost or not as they were, and 2 if nothing could be done.
    """
    started = time.monotonic()
    if not folders:
        raise click.UsageError("give --from-data")
    if given["into_data"] is None:
        raise click.UsageError("give --into-data")
    result = _into_data(topics, folders, given)
    result["seconds"] = round(time.monotonic() - started, 1)
    _write(result, json_path)
    sys.exit(0 if result["ok"] else 1)


def _into_data(topics: tuple[str, ...], folders: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    from odradek_pipeline.audit.sides import AuditError
    from odradek_pipeline.restore.folders import Folders
    from odradek_pipeline.restore.into_data import IntoData
    from odradek_pipeline.restore.target import is_new

    source = Folders(folders, topics)
    root = Path(given["into_data"])
    with _Bar() as bar:
        job = IntoData(root, _compression(given["compression"]), bar)
        try:
            done = job.whole(source, topics) if is_new(root) else job.records(source, topics)
        except OSError as error:
            raise AuditError(f"{root} cannot be written: {error}") from error
    return {
        "ok": all(written.ok for written in done),
        "from": source.name,
        "into": str(root),
        "partitions": [written.to_json() for written in done],
    }


def _compression(name: str | None) -> Compression | None:
    from odradek_pipeline.protocol.records.compression import Compression

    return None if name is None else Compression[name.upper()]


class _Bar:
    """A bar of the offsets done, on a terminal alone."""

    def __enter__(self) -> _Bar:
        from tqdm import tqdm

        self._bar = tqdm(unit=" offsets", unit_scale=True, disable=None, leave=False)
        return self

    def __call__(self, offsets: int) -> None:
        self._bar.update(offsets)

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def _write(result: dict[str, Any], json_path: str | None) -> None:
    if json_path == "-":
        click.echo(json.dumps(result, indent=1))
        return
    if json_path is not None:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for found in result["partitions"]:
        place = f"{found['topic']}-{found['partition']}"
        for text in (*found["damage"], *found["differences"]):
            click.echo(text)
        if lost := found["lost"]["count"]:
            shown = ", ".join(f"{first} to {last}" for first, last in found["lost"]["ranges"][:5])
            click.echo(f"{place}: {lost:,} offsets are lost, no replica has them whole: {shown}")
    total = sum(found["end"] - found["start"] for found in result["partitions"])
    verdict = "and compared with the source" if result["ok"] else "NOT ALL IS THERE, see above"
    click.echo(f"{result['into']}: {total:,} offsets in {len(result['partitions'])} partitions restored, {verdict}")
