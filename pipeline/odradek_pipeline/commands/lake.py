"""`odradek-pipeline lake`."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from odradek_pipeline import s3, session
from odradek_pipeline.lake import naming
from odradek_pipeline.options import pairs_option, refuse, s3_options, spark_options
from odradek_pipeline.s3 import hadoop_path

OWNED = {
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), "--topic and --pattern"),
    **dict.fromkeys(
        ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy"),
        "--starting",
    ),
    **dict.fromkeys(
        ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"), "--available-now: a stream has no other end"
    ),
    "failondataloss": "--allow-data-loss",
    "maxoffsetspertrigger": "--max-offsets",
    "minpartitions": "--min-partitions",
    "includeheaders": "the job: tables have a column for headers",
    "kafka.bootstrap.servers": "--bootstrap",
    "kafka.isolation.level": "the job: tables have committed records alone",
    **dict.fromkeys(
        (
            "kafka.auto.offset.reset",
            "kafka.enable.auto.commit",
            "kafka.interceptor.classes",
            "kafka.key.deserializer",
            "kafka.value.deserializer",
        ),
        "Spark's Kafka connector, which allows no other",
    ),
}
"""Settings of the connector, in lower case as it does not regard case, and what sets them."""


def _topic_names(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if naming.TOPIC_NAME.fullmatch(value) is None:
            raise click.BadParameter(f"{value!r} is no topic's name", ctx, parameter)
    return values


@click.command(short_help="topics to lake tables, every committed record once")
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="brokers to connect to first")
@click.option("--lake", "path", required=True, metavar="PATH", help="folder of the tables: local, hdfs:// or s3://")
@click.option("--topic", "topics", multiple=True, callback=_topic_names, help="a topic; may be repeated")
@click.option("--pattern", metavar="REGEX", help="all topics with such a name, also later ones; in place of --topic")
@click.option(
    "--format", "table_format", type=click.Choice(["delta", "iceberg", "parquet"]), default="delta", show_default=True
)
@click.option(
    "--catalog",
    metavar="NAME[.NAMESPACE]",
    help="Iceberg catalog, configured with --conf, in place of folders in --lake",
)
@click.option("--checkpoints", metavar="PATH", help="folder of the job's own state  [default: inside --lake]")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="TOPIC=SPEC",
    help="raw (default), json (inferred once), json:COLUMNS in Spark's DDL, json:@FILE, a JSON Schema, or avro, "
    "jsonschema or protobuf with a registry's schemas; TOPIC may be *",
)
@click.option(
    "--key-schema",
    "key_schemas",
    multiple=True,
    metavar="TOPIC=SPEC",
    help="of the keys: raw (default), avro, jsonschema or protobuf; TOPIC may be *",
)
@click.option("--registry", default="", metavar="URL,...", help="schema registry, for avro, jsonschema and protobuf")
@pairs_option(
    "--registry-config",
    help="setting of the registry's client, such as basic.auth.user.info=USER:PASSWORD or ssl.ca.location=FILE",
)
@click.option(
    "--upsert",
    multiple=True,
    callback=_topic_names,
    metavar="TOPIC",
    help="one row a key in its table, the newest; a null value deletes it; may be repeated",
)
@click.option("--upsert-compacted", is_flag=True, help="the same for all topics whose cleanup.policy has compact")
@click.option(
    "--tombstones-days",
    type=click.FloatRange(0),
    default=7.0,
    show_default=True,
    help="how long deleted keys are remembered, against records that come late",
)
@click.option(
    "--envelope",
    "envelopes",
    multiple=True,
    metavar="TOPIC=debezium",
    help="its values tell of changes of a row, whose --schema this is; TOPIC may be *",
)
@click.option(
    "--partition-by",
    "partitions",
    multiple=True,
    metavar="TOPIC=FIELDS",
    help="hour(F), day(F), bucket(N, F) or F itself, separated by commas, where F is a column or value.FIELD; or none; "
    "TOPIC may be *  [default: date]",
)
@click.option("--available-now", is_flag=True, help="end once everything that is there now is in the tables")
@click.option("--interval", type=click.FloatRange(0), default=10.0, show_default=True, help="seconds between batches")
@click.option("--starting", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True)
@click.option(
    "--max-offsets",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="most offsets of a topic in one batch",
)
@click.option(
    "--min-partitions", type=click.IntRange(1), help="fewest tasks for a batch, if a topic has fewer partitions"
)
@click.option(
    "--allow-data-loss", is_flag=True, help="go on although the broker has deleted records that were not read yet"
)
@click.option("--follow-recreated", is_flag=True, help="read a topic that was deleted and recreated from its start")
@click.option(
    "--optimize-every",
    type=click.IntRange(0),
    default=0,
    metavar="BATCHES",
    help="compact the tables after this many batches  [default: never]",
)
@click.option(
    "--keep-snapshots",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Iceberg: as many snapshots stay, and those of the last --keep-days",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(0),
    help="how far back readers may go: older files that no row is in any more are removed  "
    "[default: 1 for Iceberg, 7 for Delta]",
)
@click.option(
    "--group",
    metavar="NAME",
    help="consumer group whose offsets show how far the tables are; '' for none  [default: odradek-lake- and the path]",
)
@click.option(
    "--infer-records",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="number of records to infer a schema from",
)
@click.option(
    "--infer-again", is_flag=True, help="at each start, add the fields that the newest records have to inferred schemas"
)
@click.option(
    "--unknown-fields",
    is_flag=False,
    flag_value="unknown_fields",
    default="",
    metavar="[COLUMN]",
    help="keep the fields of JSON that the schema does not name, in a column of this name, by default unknown_fields  "
    "[default: they are counted and left out]",
)
@click.option(
    "--parallel",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="topics written at the same time with --available-now",
)
@click.option(
    "--attempts",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="failures in a row after which a topic is given up",
)
@click.option(
    "--discover-interval",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="seconds between searches for new topics",
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="serve Prometheus metrics on this port, on all interfaces"
)
@pairs_option(
    "--option", "options", help="option of Spark's Kafka connector, or (kafka.*) of its clients; may be repeated"
)
@s3_options
@spark_options
def command(
    bootstrap: str,
    path: str,
    checkpoints: str | None,
    schemas: tuple[str, ...],
    key_schemas: tuple[str, ...],
    envelopes: tuple[str, ...],
    partitions: tuple[str, ...],
    metrics_port: int | None,
    options: dict[str, str],
    s3_endpoint: str | None,
    s3_region: str | None,
    master: str | None,
    packages: tuple[str, ...] | None,
    conf: dict[str, str],
    **rest: Any,
) -> None:
    """Write topics to lake tables, one each, partitioned by the day of the records' timestamps (UTC).

    Every committed record is in its table once, also after any crash; records that are not what the schema says are in
    the table NAME@dead-letters with the reason. Started again with the same --lake, it continues where it was.
    """
    _check(rest | {"options": options})
    session.check_packages("pyspark", "tqdm")
    from odradek_pipeline.kafka import ClusterAddress, require_brokers
    from odradek_pipeline.lake import envelope, partitioning, progress
    from odradek_pipeline.lake.job import run
    from odradek_pipeline.lake.schemas import parse_specs
    from odradek_pipeline.lake.settings import LakeSettings
    from odradek_pipeline.registry import Registry
    from odradek_pipeline.schemas.lookup import PROTOBUF

    key_specs = parse_specs(key_schemas, "--key-schema")
    settings = LakeSettings(
        cluster=ClusterAddress(bootstrap, options),
        path=hadoop_path(path),
        checkpoints=None if checkpoints is None else hadoop_path(checkpoints),
        specs=parse_specs(schemas),
        key_specs=key_specs,
        envelopes=envelope.parse(envelopes),
        partitions=partitioning.parse(partitions),
        **rest,
    )
    settings.check()
    if any(spec.json for spec in key_specs.values()):
        raise click.UsageError("--key-schema is raw, avro, jsonschema or protobuf")
    if settings.table_format == "parquet" and settings.has_registered():
        raise click.UsageError(
            "--schema and --key-schema with avro, jsonschema or protobuf need --format delta or iceberg"
        )
    if settings.asks_registry() and not settings.registry:
        raise click.UsageError("--schema and --key-schema with a registry's schemas need --registry URL")
    if settings.registry:
        Registry(settings.registry, settings.registry_config)
    if settings.has_kind(PROTOBUF):
        session.check_codecs(PROTOBUF)
    reporter = progress.configure()
    if metrics_port is not None:
        progress.serve(metrics_port)
    require_brokers(bootstrap, settings.cluster.client_properties())
    if settings.is_on_s3:
        conf = s3.configuration(s3_endpoint, s3_region) | conf
    asked = session.SessionOptions("odradek-lake", master, packages=packages, conf=conf)
    outcome = run(settings, asked, reporter)
    if outcome.failed:
        raise click.ClickException("; ".join(outcome.failed.values()))
    if outcome.interrupted_by is not None:
        sys.exit(128 + outcome.interrupted_by)  # as a shell tells it of a process that the signal ended


def _check(given: dict[str, Any]) -> None:
    """Raises UsageError for options that contradict each other, and for a pattern that is none."""
    if bool(given["topics"]) == bool(given["pattern"]):
        raise click.UsageError("give either --topic or --pattern")
    try:
        re.compile(given["pattern"] or "")
    except re.error as error:
        raise click.UsageError(f"--pattern: {error}") from None
    refuse("--option", given["options"], OWNED)
    if given["registry_config"] and not given["registry"]:
        raise click.UsageError("--registry-config needs --registry URL")
    if given["table_format"] == "parquet" and (given["upsert"] or given["upsert_compacted"]):
        raise click.UsageError("--upsert needs a table whose rows can change: --format delta or iceberg, not parquet")
    if given["catalog"] and given["table_format"] != "iceberg":
        raise click.UsageError("--catalog is for --format iceberg")
