"""`odradek consume TOPIC...`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection
from typing import Any

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import Cluster, connected, refusals
from odradek.cli.output import Output
from odradek.cli.positions import FORMS, POSITION, led, resolve, some_partitions_of, with_numbers, within
from odradek.cli.progress import Progress
from odradek.cli.records import formatter

POLL_S = 0.2


@click.command("consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-o", "--offset", "--from", "position", type=POSITION, help=f"Where to begin; default: start. {FORMS}.")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this; may be repeated."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many records.")
@click.option("-e", "--until-end", is_flag=True, help="End where the partitions end.")
@click.option("-g", "--group", help="Read as a member of this group, and commit.")
@click.option(
    "-f", "--format", "form", default="text", help="text, json, hex, base64, or a template: %t %p %o %T %k %v %h."
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
)
@connected
def main(
    cluster: Cluster,
    out: Output,
    topics: tuple[str, ...],
    position: Any,
    partitions: tuple[int, ...],
    count: int | None,
    until_end: bool,
    group: str | None,
    form: str,
    isolation: str,
) -> None:
    """Read records, and print each; `--json` and `--format json` print an object on each line."""
    if group is not None and (position is not None or partitions):
        raise click.UsageError("--group reads what the group has not read: without --offset and --partition")
    if group == "":
        raise click.BadParameter("it is empty, and librdkafka has no such group", param_hint="--group")
    written = formatter("json" if out.as_json else form, _exact())
    admin, told = cluster.admin(), Output(as_json=False)  # records are no part of one document
    every = some_partitions_of(admin, told, topics)
    consumer = Consumer(
        cluster.config(
            group_id=f"odradek-cli-{os.getpid()}" if group is None else group,
            enable_auto_commit=group is not None,
            enable_auto_offset_store=False,
            auto_offset_reset="earliest",
            enable_partition_eof=True,
            isolation_level=isolation,
        )
    )
    without_end: set[tuple[str, int]] = set()
    if group is not None:
        consumer.subscribe(sorted({one.topic for one in every}))
        without_end = {(one.topic, one.partition) for one in every}
        without_end -= {(one.topic, one.partition) for one in led(admin, told, every)}
    else:
        start = OffsetSpec.earliest() if position is None else position
        offsets = within(admin, told, resolve(admin, told, with_numbers(every, partitions), start))
        if not offsets:
            told.end()
        consumer.assign([TopicPartition(name, number, offset) for (name, number), offset in offsets.items()])
    try:
        _read(consumer, told, written, count, until_end, group is not None, without_end)
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        consumer.close()
    told.end()


def _exact() -> str:
    """Have a file or a pipe get the bytes of records as they are; return how they become text then."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty() or stream.encoding.lower() != "utf-8":
        return "backslashreplace"
    stream.reconfigure(errors="surrogateescape")
    return "surrogateescape"


def _read(
    consumer: Consumer,
    told: Output,
    written: Any,
    count: int | None,
    until_end: bool,
    store: bool,
    ended: set[tuple[str, int]],
) -> None:
    """Print records until it is enough; `ended` are partitions whose end is not waited for."""
    progress = Progress("read")
    try:
        while count is None or progress.records < count:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                sys.stdout.write(written(message))
                progress.add(len(message.value() or b"") + len(message.key() or b""))
                if store:
                    consumer.store_offsets(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                sys.stdout.flush()
                ended.add((str(message.topic()), int(message.partition() or 0)))
                if until_end and _all_ended(consumer, ended):
                    return
            elif not store and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                pass  # librdkafka looks for a coordinator without need
            elif error.fatal() or not error.retriable():
                _tell(told, message, ended)
                if _all_ended(consumer, ended):
                    return
    finally:
        sys.stdout.flush()
        progress.end()


def _all_ended(consumer: Consumer, ended: Collection[tuple[str, int]]) -> bool:
    return all((one.topic, one.partition) in ended for one in consumer.assignment())


def _tell(told: Output, message: Message, ended: set[tuple[str, int]]) -> None:
    """Tell what is refused of one partition, so that the others are read. Raises KafkaException for any other error."""
    topic, partition, error = message.topic(), message.partition(), message.error()
    if topic is None or partition is None or partition < 0 or error is None or error.fatal():
        raise KafkaException(error)
    with refusals(told, {"partition": f"{topic}-{partition}"}):
        raise KafkaException(error)
    ended.add((topic, partition))
