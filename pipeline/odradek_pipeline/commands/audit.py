"""`odradek-pipeline audit`: proof that a table, another topic or a replica has what a topic has."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek_pipeline.options import pairs_option, table_options, tier_config_option

if TYPE_CHECKING:
    from odradek_pipeline.audit.sources import TopicPlace

OTHERS = ("lake", "table", "against_data", "against_tier", "against_bootstrap")
UP_TO = ("batch", "last-row", "end")


@click.command(short_help="what a table, another topic or a replica has and lacks of a topic")
@click.option("--topic", "topics", multiple=True, help="the topic; with --replicas any number, by default all")
@click.option("--data", multiple=True, metavar="DIR", help="a broker's data folder that has the topic; may be repeated")
@click.option("--tier", metavar="PLACE", help="where its older segments are: a folder or s3://BUCKET/KEY-PREFIX")
@tier_config_option("--tier and --against-tier")
@click.option("--bootstrap", metavar="HOST:PORT,...", help="brokers that have the topic, in place of --data")
@click.option("--lake", metavar="PATH", help="a lake of `odradek-pipeline lake`: table, dead letters and newest batch")
@click.option("--table", metavar="PATH", help="any table, or CATALOG:NAMESPACE.TABLE of Iceberg; in place of --lake")
@table_options
@click.option("--against-topic", metavar="NAME", help="another topic in place of a table  [default: of the same name]")
@click.option("--against-data", multiple=True, metavar="DIR", help="a data folder that has it; may be repeated")
@click.option("--against-tier", metavar="PLACE", help="where its older segments are")
@click.option("--against-bootstrap", metavar="HOST:PORT,...", help="brokers that have it")
@click.option("--map", "map_path", metavar="FILE", help="the map of offsets that `restore --into-topic` has written")
@click.option("--replicas", multiple=True, metavar="DIR", help="data folders of several brokers, against each other")
@click.option("--insight", is_flag=True, help="what the topic is like: throughput, skew, hot keys, lag of groups")
@click.option("--parquet", "parquet_path", metavar="DIR", help="with --insight: write its tables as Parquet files")
@click.option("--up-to", type=click.Choice(UP_TO), help="what is compared  [default: batch, end for topics]")
@pairs_option(
    "--client-config", "client", help="setting of librdkafka for both clusters, as security.protocol; may be repeated"
)
@click.option("--json", "json_path", metavar="FILE", help="write the result as JSON; - for standard output")
@click.option("--html", "html_path", metavar="FILE", help="write a page with plots, which needs nothing from outside")
def command(topics: tuple[str, ...], replicas: tuple[str, ...], **given: Any) -> None:
    """Compare a topic with a table, with another topic, or the logs of several replicas, without Spark.

    The exit status is 0 if all is as it should be, 1 if something is missing, twice, extra or different, and 2 if it
    could not be found out.
    """
    from odradek_pipeline import log_lines

    log_lines.keep_from_output()
    started = time.monotonic()
    if given["parquet_path"] and not given["insight"]:
        raise click.UsageError("--parquet goes with --insight")
    if given["insight"]:
        _insight(topics, replicas, given, started)
        return
    result = _replicas(topics, replicas, given) if replicas else _tables(topics, given)
    result["seconds"] = round(time.monotonic() - started, 1)
    _write(result, given["json_path"], given["html_path"])
    sys.exit(0 if result["ok"] else 1)


def _replicas(topics: tuple[str, ...], folders: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    from odradek_pipeline.audit.replicas import audit_replicas

    if any(given[name] for name in ("data", "tier", "bootstrap", *OTHERS)):
        raise click.UsageError("--replicas compares the folders with each other: give no other side")
    found = audit_replicas(folders, topics)
    return {
        "ok": not any(one.faults for one in found),
        "folders": list(folders),
        "replicas": [one.to_json() for one in found],
    }


def _insight(topics: tuple[str, ...], replicas: tuple[str, ...], given: dict[str, Any], started: float) -> None:
    from odradek_pipeline.audit import insight_page
    from odradek_pipeline.audit.insight import look_at

    if replicas or any(given[name] for name in OTHERS):
        raise click.UsageError("--insight is of one topic: give no other side")
    place = _place(topics, given)
    topic = place.open()
    found = look_at(topic, place.offsets())
    result = {"topic": topics[0], "source": str(place), "seconds": round(time.monotonic() - started, 1)}
    result["damage"] = topic.damage()
    if given["parquet_path"]:
        insight_page.write_tables(Path(given["parquet_path"]), found)
    if given["html_path"]:
        insight_page.write_page(Path(given["html_path"]), found, result)
    _tell(result | found.to_json(), given["json_path"], [*topic.damage(), *insight_page.lines(found)])


def _place(topics: tuple[str, ...], given: dict[str, Any]) -> TopicPlace:
    from odradek_pipeline.audit.sources import place_of

    if len(topics) != 1:
        raise click.UsageError("give one --topic")
    tier = given["tier"], given["tier_config"]
    return place_of(topics[0], given["data"], given["bootstrap"], tier, given["client"])


def _tables(topics: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    place = _place(topics, given)
    audit, name = _audit(place, given)
    findings = audit.run()
    return {
        "ok": not any(found.faults for found in findings) and not audit.topic.damage(),
        "topic": topics[0],
        "source": str(place),
        "table": name,
        "compared": audit.compared,
        "damage": audit.topic.damage(),
        "partitions": [found.to_json() for found in findings],
    }


def _audit(place: Any, given: dict[str, Any]) -> tuple[Any, str]:
    """The audit and the name of its other side. Tables are opened before the topic, which may grow meanwhile."""
    from odradek_pipeline.audit.run import Audit
    from odradek_pipeline.audit.sources import TablePlace
    from odradek_pipeline.audit.topic_table import MappedTopic, OffsetMap

    against = ("against_data", "against_tier", "against_bootstrap")
    others = [bool(given["lake"]), bool(given["table"]), any(given[name] for name in against)]
    if sum(others) != 1:
        raise click.UsageError("give one of --lake, --table, --against-data and --against-bootstrap")
    if others[2]:
        return _against(place, given)
    tables = TablePlace.given(given)
    until = tables.newest_batch(place.topic) if given["up_to"] in (None, "batch") else None
    table, dead = tables.open(place.topic)
    topic = place.open()
    if given["map_path"]:
        topic = MappedTopic(topic, OffsetMap.read(given["map_path"], place.topic, "new_topic"))
    if given["up_to"] == "end":
        until = {number: extent.end for number, extent in topic.extents().items()}
    return Audit(topic, table, dead, until), table.name


def _against(place: Any, given: dict[str, Any]) -> tuple[Any, str]:
    from odradek_pipeline.audit.run import Audit
    from odradek_pipeline.audit.sources import place_of
    from odradek_pipeline.audit.topic_table import OffsetMap, TopicTable

    offsets = OffsetMap.read(given["map_path"], place.topic) if given["map_path"] else None
    name = given["against_topic"] or (offsets and offsets.new_topic) or place.topic
    tier = given["against_tier"], given["tier_config"]
    other = place_of(
        name, given["against_data"], given["against_bootstrap"], tier, given["client"], prefix="--against-"
    )
    table = TopicTable(other.open(), offsets)
    topic = place.open()
    until = None
    if given["up_to"] != "last-row":
        until = {number: extent.end for number, extent in topic.extents().items()}
    return Audit(topic, table, until=until), str(other)


def _write(result: dict[str, Any], json_path: str | None, html_path: str | None) -> None:
    from odradek_pipeline.audit import report

    if html_path is not None:
        report.audit_page(Path(html_path), result)
    _tell(result, json_path, report.lines(result))


def _tell(result: dict[str, Any], json_path: str | None, lines: list[str]) -> None:
    if json_path is not None and json_path != "-":
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n")
    if json_path == "-":
        click.echo(json.dumps(result, indent=1))
    else:
        for line in lines:
            click.echo(line)
