"""`odradek produce TOPIC [VALUE...]`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, TextIO

import click
from confluent_kafka import KafkaException, Producer

from odradek.cli.arguments import pairs
from odradek.cli.connection import Cluster, connected
from odradek.cli.errors import error_name, sentence
from odradek.cli.output import Output
from odradek.cli.positions import some_partitions_of, with_numbers
from odradek.cli.progress import Progress
from odradek.cli.records import ENCODINGS, decoded, from_json

FORMATS = (*ENCODINGS, "json")


@click.command("produce")
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-k", "--key", help="The key of each record, in the same format.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="What stands between key and value in a line.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("-p", "--partition", type=click.IntRange(0, 2**31 - 1), help="Default: by the key.")
@click.option("--tombstone", is_flag=True, help="Write one record without value, that of --key.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--create", is_flag=True, help="Let the cluster create the topic, if it allows that.")
@connected
def main(
    cluster: Cluster,
    out: Output,
    topic: str,
    values: tuple[str, ...],
    form: str,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    tombstone: bool,
    compression: str,
    acks: str,
    create: bool,
) -> None:
    """Write records: one for each VALUE, or else one for each line of the input.

    With `--format json` a line is an object as `odradek consume --json` prints it: key, value, headers, timestamp.
    """
    admin = cluster.admin()
    if not create:
        with_numbers(some_partitions_of(admin, out, [topic]), () if partition is None else (partition,))
    encoding = "text" if form == "json" else form
    common: dict[str, Any] = {"key": decoded(key, encoding, "--key") if key is not None else None}
    common["headers"] = [(name, decoded(value, "text", "--header")) for name, value in pairs(headers, "--header")]
    if tombstone:
        if key is None or values:
            raise click.UsageError("--tombstone: expected --key, and no value")
        records: Iterator[dict[str, Any]] = iter([{"value": None}])
    else:
        records = _records(values, form, key_delimiter)
    config = cluster.config(acks=acks, compression_type=compression, linger_ms=5)
    place = {} if partition is None else {"partition": partition}
    _send(
        Producer(config),
        out,
        topic,
        (_with_defaults(one, common) | place for one in records),
    )


def _with_defaults(record: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    """The record, with the common key and headers where it has none of its own; an empty key is one."""
    own = {name: given for name, given in record.items() if given is not None and given != []}
    return common | own | {"value": record["value"]}


def when_there_is_room(producer: Producer, produce: Callable[[], object]) -> None:
    """Have a record sent, and serve the deliveries of others; while the producer's queue is full, wait."""
    while True:
        try:
            produce()
        except BufferError:
            producer.poll(0.01)
        else:
            producer.poll(0)
            return


def _input() -> TextIO:
    """Standard input, with bytes that are no UTF-8 kept as they are."""
    return io.TextIOWrapper(sys.stdin.buffer, "utf-8", "surrogateescape")


def _records(values: tuple[str, ...], form: str, delimiter: str | None) -> Iterator[dict[str, Any]]:
    lines = iter(values) if values else (line.rstrip("\n") for line in _input())
    if form != "text":  # of a text a byte order mark may be a part, as for Kafka's own command
        lines = chain((line.removeprefix("\ufeff") for line in islice(lines, 1)), lines)
    for number, line in enumerate(lines, 1):
        if form == "json":
            yield from_json(line, number)
            continue
        key, found, value = line.partition(delimiter) if delimiter else ("", "", line)
        if delimiter and not found:
            raise click.ClickException(f"line {number} has no {delimiter!r} (--key-delimiter): {line!r}")
        yield {"key": decoded(key, form, "key") if found else None, "value": decoded(value, form, "value")}


def _send(producer: Producer, out: Output, topic: str, records: Iterator[dict[str, Any]]) -> None:
    progress = Progress("wrote")
    failures: dict[str, tuple[int, str]] = {}

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            progress.add(len(message.value() or b"") + len(message.key() or b""))
        else:
            failed = KafkaException(error)
            name = error_name(failed)
            failures[name] = (failures.get(name, (0, ""))[0] + 1, sentence(failed))

    try:
        for record in records:
            when_there_is_room(producer, partial(producer.produce, topic, on_delivery=delivered, **record))
    finally:
        producer.flush()
        progress.end()
        if progress.records or not failures:  # said also if the next line is wrong
            out.result({"topic": topic, "records": progress.records}, f"{progress.records} written")
        for name, (count, text) in failures.items():
            out.failure({"topic": topic, "records": count}, name, f"{count} not written: {text}")
