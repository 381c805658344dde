"""`odradek-pipeline restore`: topics out of folders, backups, tiers and raw tables, into a data folder or a cluster."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek_pipeline.options import pairs_option, table_options, tier_config_option

if TYPE_CHECKING:
    from odradek_pipeline.restore.into_data import Source

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ALL = "all"


@click.command(short_help="topics from folders, a backup, a tier or a raw table, into a folder or a cluster")
@click.option("--topic", "topics", multiple=True, help="the topic; of folders any number  [default: all]")
@click.option(
    "--from-data",
    "folders",
    multiple=True,
    metavar="DIR",
    help="a data folder, which may be damaged, or a backup; repeat it for the folders of replicas",
)
@click.option(
    "--from-tier",
    "tier",
    metavar="PLACE",
    help="remote storage, with --from-data or alone: a folder or s3://BUCKET/PREFIX",
)
@tier_config_option("--from-tier")
@click.option("--topic-id", metavar="ID", help="of which topic, if remote storage has several of that name")
@click.option("--from-lake", "lake", metavar="PATH", help="a lake of `odradek-pipeline lake` with the raw table")
@click.option("--from-table", "table", metavar="PATH", help="any raw table, or CATALOG:NAMESPACE.TABLE of Iceberg")
@table_options
@click.option("--reencode", is_flag=True, help="take a table of parsed values, and write these anew, as JSON")
@click.option("--into-data", metavar="DIR", help="the data folder of a broker that is stopped, or an empty folder")
@click.option("--bootstrap", metavar="HOST:PORT,...", help="the cluster to restore into, in place of --into-data")
@click.option("--into-topic", metavar="NAME", help="the topic there  [default: of the same name]")
@click.option("--map", "map_path", metavar="FILE", help="where the map of old and new offsets is written, as Parquet")
@click.option("--groups", multiple=True, metavar="NAME", help="a consumer group to move; repeat it, or `all`")
@click.option("--groups-bootstrap", metavar="HOST:PORT,...", help="the cluster where the groups are, if it is another")
@pairs_option("--client-config", "client", help="setting of librdkafka, as security.protocol; may be repeated")
@click.option("--compression", type=click.Choice(COMPRESSIONS), help="of batches  [default: as they are, else zstd]")
@click.option("--json", "json_path", metavar="FILE", help="write the result as JSON; - for standard output")
def command(topics: tuple[str, ...], json_path: str | None, **given: Any) -> None:
    """Put back the records of topics: with their offsets into a data folder, or with a map of them into a cluster.

    At the end the result is read and compared with the source. The exit status is 0 if it has all, 1 if records are
    lost or not as they were, or a group has not moved, and 2 if nothing could be done.
    """
    from odradek_pipeline import log_lines

    log_lines.keep_from_output()
    started = time.monotonic()
    if (given["into_data"] is None) == (given["bootstrap"] is None):
        raise click.UsageError("give either --into-data or --bootstrap")
    _check_groups(given)
    source = _source(topics, given)
    with _Bar() as bar:
        into = _into_data if given["into_data"] is not None else _into_topic
        result = into(source, topics, given, bar)
    result["seconds"] = round(time.monotonic() - started, 1)
    _write(result, json_path)
    sys.exit(0 if result["ok"] else 1)


def _check_groups(given: dict[str, Any]) -> None:
    into_topic = given["bootstrap"] is not None
    for name in ("into_topic", "map_path", "groups", "groups_bootstrap"):
        if given[name] and not into_topic:
            raise click.UsageError(f"--{name.removesuffix('_path').replace('_', '-')} goes with --bootstrap")
    if into_topic and not given["map_path"]:
        raise click.UsageError("give --map: the records get other offsets, and the file says which")


def _source(topics: tuple[str, ...], given: dict[str, Any]) -> Source:
    from odradek_pipeline.audit.sources import TablePlace
    from odradek_pipeline.restore.folders import Folders

    if sum(map(bool, (given["folders"] or given["tier"], given["lake"], given["table"]))) != 1:
        raise click.UsageError("give one of --from-data (or --from-tier), --from-lake and --from-table")
    if not given["tier"] and (given["tier_config"] or given["topic_id"]):
        raise click.UsageError("--tier-config and --topic-id go with --from-tier")
    if given["folders"] or given["tier"]:
        tier = {**given["tier_config"], "tier": given["tier"]} if given["tier"] else None
        return Folders(given["folders"], topics, tier, given["topic_id"])
    if len(topics) != 1:
        raise click.UsageError("give one --topic: that of the table")
    from odradek_pipeline.restore.rows import TableSource

    place = TablePlace.given(given)
    place.newest_batch(topics[0])  # refuses a table of one row a key
    return TableSource(topics[0], *place.open(topics[0]), reencode=given["reencode"])


def _into_data(source: Source, topics: tuple[str, ...], given: dict[str, Any], bar: _Bar) -> dict[str, Any]:
    from odradek_pipeline.audit.sides import AuditError
    from odradek_pipeline.protocol.records.compression import Compression
    from odradek_pipeline.restore.folders import Folders
    from odradek_pipeline.restore.into_data import IntoData
    from odradek_pipeline.restore.target import is_new

    root, name = Path(given["into_data"]), given["compression"]
    job = IntoData(root, None if name is None else Compression[name.upper()], bar)
    try:
        if is_new(root) and isinstance(source, Folders):
            done = job.whole(source, topics)
        else:
            done = job.records(source, topics)
    except OSError as error:
        raise AuditError(f"{root} cannot be written: {error}") from error
    return {
        "ok": all(written.ok for written in done),
        "from": source.name,
        "into": str(root),
        "remote_stays": isinstance(source, Folders) and source.remote_stays,
        "partitions": [written.to_json() for written in done],
    }


def _into_topic(source: Source, topics: tuple[str, ...], given: dict[str, Any], bar: _Bar) -> dict[str, Any]:
    from odradek_pipeline.audit.sides import AuditError
    from odradek_pipeline.restore.into_topic import restored_into

    if len(topics) != 1:
        raise click.UsageError("give one --topic: each gets a map of its own")
    try:
        return restored_into(
            source,
            topics[0],
            given["bootstrap"],
            new_topic=given["into_topic"] or topics[0],
            map_path=Path(given["map_path"]),
            config=given["client"],
            compression=given["compression"] or "zstd",
            groups=given["groups"],
            groups_bootstrap=given["groups_bootstrap"],
            progress=bar,
        )
    except OSError as error:
        raise AuditError(f"{given['map_path']} cannot be written: {error}") from error


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
    from odradek_pipeline.restore.told import lines

    for line in lines(result):
        click.echo(line)
