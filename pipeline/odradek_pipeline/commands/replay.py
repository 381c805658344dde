"""`odradek-pipeline replay`: rows of a lake, or of Parquet, JSON or CSV files, to topics, each once."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import click

from odradek_pipeline import options, s3, session
from odradek_pipeline.registry import Registry
from odradek_pipeline.schemas import registry_specs

if TYPE_CHECKING:
    from odradek_pipeline.replay.encoding import ValueFormat

JOB_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
FORMATS = ("delta", "iceberg", "parquet", "json", "csv")
OWNED_BY_READER = {
    **dict.fromkeys(("path", "paths"), "--source"),
    **dict.fromkeys(
        ("versionasof", "timestampasof", "snapshot-id", "as-of-timestamp", "branch", "tag"),
        "the job, which reads the version that it began with",
    ),
}
OWNED_BY_PRODUCER = {
    "bootstrap.servers": "--bootstrap",
    "metadata.broker.list": "--bootstrap",
    "transaction.timeout.ms": "--transaction-seconds",
    **dict.fromkeys(
        ("transactional.id", "enable.idempotence", "acks", "request.required.acks", "partitioner"),
        "the job, so that every row is written once and in order",
    ),
    **dict.fromkeys(
        ("group.id", "isolation.level", "auto.offset.reset", "enable.auto.commit", "enable.partition.eof"),
        "the job, which reads its own progress",
    ),
}


def _job_name(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if JOB_NAME.fullmatch(value) is None:
        raise click.BadParameter("letters, digits, '.', '_' and '-', 200 at most", ctx, parameter)
    return value


@click.command(short_help="rows of a lake, or of Parquet, JSON or CSV, to topics, each once")
@click.option(
    "--source", required=True, metavar="PATH", help="folder, file or pattern; for Iceberg also a table's name"
)
@click.option("--format", "source_format", type=click.Choice(FORMATS), default="delta", show_default=True)
@click.option("--schema", metavar="DDL", help="the source's columns, as in 'id BIGINT, name STRING'")
@options.pairs_option("--option", "reader", help="option of Spark's reader")
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="brokers to connect to first")
@click.option("--topic", help="the topic of all rows")
@click.option("--topic-column", metavar="COL", help="column with a row's topic; instead of --topic")
@click.option("--partitions", type=click.IntRange(1), help="partitions of --topic if it does not exist and is created")
@options.pairs_option(
    "--topic-config",
    help="configuration of --topic if it is created, such as retention.ms=-1 for records with old times",
)
@click.option("--key-column", metavar="COL", help="column with the key  [default: no key]")
@click.option("--key-expr", metavar="SQL", help="expression for the key; instead of --key-column")
@click.option("--value", metavar="COL", help="column with the value  [default: the other columns as a JSON object]")
@click.option(
    "--value-format",
    type=click.Choice(tuple(registry_specs.KINDS)),
    help="values with a schema of a registry, whose id is in front  [default: bytes, text or JSON]",
)
@click.option("--registry", default="", metavar="URL,...", help="schema registry, for --value-format")
@options.pairs_option(
    "--registry-config",
    help="setting of the registry's client, such as basic.auth.user.info=USER:PASSWORD or ssl.ca.location=FILE",
)
@click.option("--register", is_flag=True, help="register the schema, in place of the subject's latest")
@click.option(
    "--value-schema", default="", metavar="FILE", help="the schema to --register  [default: made of the columns]"
)
@click.option("--value-subject", metavar="NAME", help="the subject of the schema  [default: TOPIC-value]")
@click.option("--headers-column", metavar="COL", help="column with the headers: a map, or an array of (key, value)")
@click.option(
    "--timestamp-column",
    metavar="COL",
    help="column with the time: a timestamp, or milliseconds  [default: time of writing]",
)
@click.option("--order-by", multiple=True, metavar="COL", help="column that orders a key's records; may be repeated")
@click.option(
    "--job", required=True, callback=_job_name, help="name of the job: started again under it, a replay continues"
)
@click.option(
    "--tasks", type=click.IntRange(1), help="number of tasks, fixed for a job  [default: by the size of the source]"
)
@click.option("--transaction-rows", type=click.IntRange(1), default=100_000, show_default=True, help="most rows in one")
@click.option(
    "--transaction-bytes",
    type=click.IntRange(1),
    default=64 << 20,
    show_default=True,
    help="most bytes of keys and values in one",
)
@click.option(
    "--transaction-seconds",
    type=click.FloatRange(1, 150),
    default=10,
    show_default=True,
    help="longest time that one is open",
)
@options.pairs_option("--client-config", help="setting of librdkafka, such as security.*")
@options.pairs_option("--producer-config", help="setting of librdkafka's producer")
@options.s3_options
@options.spark_options
def command(**given: Any) -> None:
    """Write rows to topics: keyed, in order per key, each exactly once, whatever fails in between.

    Every Spark task writes in transactions and keeps its progress beside them, so that a retried task and a job that
    is started again continue after the last commit. The source must not change meanwhile; Delta and Iceberg tables
    may: the job reads the version that it began with.
    """
    if (given["topic"] is None) == (given["topic_column"] is None):
        raise click.UsageError("one of --topic and --topic-column is needed")
    if given["topic_config"] and (given["topic"] is None or given["partitions"] is None):
        raise click.UsageError("--topic-config needs --topic and --partitions, without which no topic is created")
    _check_format(given)
    options.refuse("--option", given["reader"], OWNED_BY_READER)
    for name in ("client_config", "producer_config"):
        options.refuse(f"--{name.replace('_', '-')}", given[name], OWNED_BY_PRODUCER)
    if given["key_column"] is not None and given["key_expr"] is not None:
        raise click.UsageError("--key-column and --key-expr exclude each other")
    session.check_packages("pyspark", "tqdm", "pyarrow", "confluent_kafka")
    from odradek_pipeline import log_lines
    from odradek_pipeline.kafka import require_brokers

    terminal = log_lines.configure()
    require_brokers(given["bootstrap"], given["client_config"])
    parts: tuple[str, ...] = {"delta": (session.DELTA,), "iceberg": (session.ICEBERG,)}.get(given["source_format"], ())
    given["source"] = s3.hadoop_path(given["source"])
    if s3.is_s3(given["source"]):
        parts = (*parts, session.S3)
        given["conf"] = s3.configuration(given["s3_endpoint"], given["s3_region"]) | given["conf"]
    spark = session.build(
        session.SessionOptions(
            app_name=f"replay {given['job']}",
            master=given["master"],
            parts=parts,
            packages=given["packages"],
            conf=given["conf"],
        )
    )
    with session.running(spark):
        _run(spark, given, terminal=terminal)


def _check_format(given: dict[str, Any]) -> None:
    """Raises UsageError for what is said of a schema without one, or of one that nobody could find."""
    if given["value_format"] is None:
        for name in ("registry", "registry_config", "register", "value_schema", "value_subject"):
            if given[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --value-format")
        return
    if not given["registry"]:
        raise click.UsageError("--value-format needs --registry URL")
    if given["topic"] is None and given["value_subject"] is None:
        raise click.UsageError("--value-format needs --topic, or --value-subject")
    if given["value_schema"] and not given["register"]:
        raise click.UsageError("--value-schema is the schema to --register")
    Registry(given["registry"], given["registry_config"])
    session.check_codecs(registry_specs.KINDS[given["value_format"]])


def _value_format(given: dict[str, Any]) -> ValueFormat | None:
    if given["value_format"] is None:
        return None
    from odradek_pipeline.replay.encoding import ValueFormat

    return ValueFormat(
        registry=Registry(given["registry"], given["registry_config"]),
        kind=registry_specs.KINDS[given["value_format"]],
        subject=given["value_subject"] or f"{given['topic']}-value",
        register=given["register"],
        file=given["value_schema"],
    )


def _run(spark: Any, given: dict[str, Any], *, terminal: bool) -> None:
    from odradek_pipeline.replay.job import Replay, replay
    from odradek_pipeline.replay.recipe import Recipe
    from odradek_pipeline.replay.source import Source
    from odradek_pipeline.replay.writer import TransactionLimits

    began = time.monotonic()
    totals = replay(
        spark,
        Replay(
            job=given["job"],
            source=Source(given["source"], given["source_format"], given["schema"], given["reader"]),
            recipe=Recipe(
                topic=given["topic"],
                topic_column=given["topic_column"],
                key_column=given["key_column"],
                key_expression=given["key_expr"],
                value_column=given["value"],
                headers_column=given["headers_column"],
                timestamp_column=given["timestamp_column"],
                order_by=given["order_by"],
            ),
            client={"bootstrap.servers": given["bootstrap"], **given["client_config"]},
            producer=given["producer_config"],
            tasks=given["tasks"],
            partitions=given["partitions"],
            topic_config=given["topic_config"],
            limits=TransactionLimits(
                given["transaction_rows"], given["transaction_bytes"], given["transaction_seconds"]
            ),
            bar=terminal,
            value_format=_value_format(given),
        ),
    )
    now = totals.rows - totals.rows_before
    click.echo(
        f"job {given['job']}: {totals.rows} rows ({totals.size / 1e6:.1f} MB) in {totals.tasks} tasks: "
        f"{now} now, {totals.rows_before} before; {time.monotonic() - began:.1f} s"
        + (" (it was finished already)" if now == 0 and totals.rows_before else "")
    )
