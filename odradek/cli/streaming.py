"""`odradek produce TOPIC [VALUE...]` and `odradek consume TOPIC...`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TextIO

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import TargetCluster, connected, error_name, refusals, sentence
from odradek.cli.general import LARGEST, pairs, registry_option
from odradek.cli.known_names import WithKnownNames
from odradek.cli.output import Output
from odradek.cli.positions import FORMS, POSITION, led, resolve, some_partitions_of, with_numbers, within
from odradek.cli.records import ENCODINGS, FIELDS, Encoder, RecordCounter, as_bytes, decoded, formatter, from_json

FORMATS = (*ENCODINGS, "json")
SCHEMAS = "avro, jsonschema, protobuf, each alone or with :latest, :@FILE; json"


@click.command("produce", cls=WithKnownNames)
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
@click.option("--value", "--schema", "value_schema", metavar="SCHEMA", help=f"Values are JSON, written so: {SCHEMAS}.")
@click.option("--key-schema", metavar="SCHEMA", help="The same for keys.")
@registry_option()
@connected
def produce(
    cluster: TargetCluster,
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
    value_schema: str | None,
    key_schema: str | None,
) -> None:
    """Write records: one for each VALUE, or else one for each line of the input.

    With `--format json` a line is an object as `odradek consume --json` prints it: key, value, headers, timestamp.

    A SCHEMA is avro, jsonschema or protobuf: the latest schema of the subject TOPIC-value (TOPIC-key), whose id is put
    in front. `avro:id=7` has another one, `avro:subject=NAME` that of another subject. `avro:latest` and `avro:@FILE`
    put nothing in front. `protobuf:message=NAME` is another message than the first one.
    """
    if form in ("hex", "base64") and (value_schema or key_schema):
        raise click.UsageError(f"--format {form}: keys and values with schemas are JSON: expected text or json")
    admin = cluster.admin()
    if not create:
        with_numbers(some_partitions_of(admin, out, [topic]), () if partition is None else (partition,))
    write = Encoders.of(topic, "text" if form == "json" else form, key_schema, value_schema)
    common: dict[str, Any] = {"key": write.key_of_text(key, "--key") if key is not None else None}
    common["headers"] = [(name, decoded(value, "text", "--header")) for name, value in pairs(headers, "--header")]
    if tombstone:
        if key is None or values:
            raise click.UsageError("--tombstone: expected --key, and no value")
        records: Iterator[dict[str, Any]] = iter([{"value": None}])
    else:
        records = _records(values, form, key_delimiter, write)
    config = cluster.config(acks=acks, compression_type=compression, linger_ms=5)
    place = {} if partition is None else {"partition": partition}
    _send(
        Producer(config),
        out,
        topic,
        (_with_defaults(record, common) | place for record in records),
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


class Encoders(NamedTuple):
    """What makes the bytes of keys and values, from texts and from values of JSON, which are named in errors."""

    key_of_text: Callable[[str, str], bytes]
    value_of_text: Callable[[str, str], bytes]
    key: Encoder = as_bytes
    value: Encoder = as_bytes

    @classmethod
    def of(cls, topic: str, encoding: str, key_schema: str | None, value_schema: str | None) -> Encoders:
        """Those for an encoding of bytes, or for schemas. Raises ClickException if there is no such schema."""

        def plain(text: str, what: str) -> bytes:
            return decoded(text, encoding, what)

        found = cls(plain, plain)
        if key_schema is None and value_schema is None:
            return found
        from odradek.cli.values import Schemas, Writer, spec_of
        from odradek.schemas.registry_specs import KEY, VALUE

        schemas = Schemas()
        if key_schema is not None:
            writer = Writer(spec_of(key_schema, "--key-schema", with_id=True), topic, KEY, schemas)
            found = found._replace(key_of_text=writer.of_text, key=writer.of_value)
        if value_schema is not None:
            writer = Writer(spec_of(value_schema, "--value", with_id=True), topic, VALUE, schemas)
            found = found._replace(value_of_text=writer.of_text, value=writer.of_value)
        return found


def _records(values: tuple[str, ...], form: str, delimiter: str | None, write: Encoders) -> Iterator[dict[str, Any]]:
    lines = iter(values) if values else (line.rstrip("\n") for line in _input())
    if form != "text":  # of a text a byte order mark may be a part, as for Kafka's own command
        lines = chain((line.removeprefix("\ufeff") for line in islice(lines, 1)), lines)
    for number, line in enumerate(lines, 1):
        if form == "json":
            yield from_json(line, number, write.key, write.value)
            continue
        key, found, value = line.partition(delimiter) if delimiter else ("", "", line)
        if delimiter and not found:
            raise click.ClickException(f"line {number} has no {delimiter!r} (--key-delimiter): {line!r}")
        where = f"record {number}:"
        yield {
            "key": write.key_of_text(key, f"{where} key") if found else None,
            "value": write.value_of_text(value, f"{where} value"),
        }


def _send(producer: Producer, out: Output, topic: str, records: Iterator[dict[str, Any]]) -> None:
    progress = RecordCounter("wrote")
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


POLL_S = 0.2


@click.command("consume", cls=WithKnownNames)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-o", "--offset", "--from", "position", type=POSITION, help=f"Where to begin; default: start. {FORMS}.")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this; may be repeated."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many records.")
@click.option("-e", "--until-end", is_flag=True, help="End where the partitions end.")
@click.option(
    "--last", type=click.IntRange(1, LARGEST), metavar="N", help="Only the last N offsets of each partition; then end."
)
@click.option("-g", "--group", help="Read as a member of this group, and commit.")
@click.option("-f", "--format", "form", default="text", help=f"text, json, hex, base64, or a template: {FIELDS}.")
@click.option("--null", metavar="TEXT", default="", help="What a template has for null; default: nothing.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
)
@click.option("--value", "--schema", "value_schema", metavar="SCHEMA", help=f"Read values so: {SCHEMAS}.")
@click.option("--key", "--key-schema", "key_schema", metavar="SCHEMA", help="The same for keys.")
@registry_option()
@connected
def consume(
    cluster: TargetCluster,
    out: Output,
    topics: tuple[str, ...],
    position: Any,
    partitions: tuple[int, ...],
    count: int | None,
    until_end: bool,
    last: int | None,
    group: str | None,
    form: str,
    null: str,
    isolation: str,
    value_schema: str | None,
    key_schema: str | None,
) -> None:
    """Read records, and print each; `--json` and `--format json` print an object on each line.

    In a template %t is the topic, %p the partition, %o the offset, %T the timestamp, %k the key, %v (%s) the value, %h
    the headers, %K and %S the bytes of key and value, -1 where it is null.

    A SCHEMA is avro, jsonschema or protobuf: by the id in front of the bytes or in a header, of the schema registry.
    `avro:latest` and `avro:@FILE` are for bytes with nothing in front, by the latest schema of the subject TOPIC-value
    (TOPIC-key) or that of a file; `:subject=NAME` names another one. What is read so is printed as JSON. What does not
    fit is printed as it is, and an error says why.
    """
    if group is not None and (position is not None or partitions or last):
        raise click.UsageError("--group reads what the group has not read: without --offset, --last and --partition")
    if last is not None and position is not None:
        raise click.UsageError("--last and --offset both say where to begin: expected one of them")
    if group == "":
        raise click.BadParameter("it is empty, and librdkafka has no such group", param_hint="--group")
    if out.as_json:
        form, out.as_json = "json", False  # records are no part of one document
    readers = _readers(out, key_schema, value_schema)
    written = formatter(form, _exact(), null, **readers)
    admin = cluster.admin()
    every = some_partitions_of(admin, out, topics)
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
        consumer.subscribe(sorted({place.topic for place in every}))
        without_end = {(place.topic, place.partition) for place in every}
        without_end -= {(place.topic, place.partition) for place in led(admin, out, every)}
    else:
        start = -last if last else OffsetSpec.earliest() if position is None else position
        offsets = within(admin, out, resolve(admin, out, with_numbers(every, partitions), start))
        if not offsets:
            out.end()
        consumer.assign([TopicPartition(name, number, offset) for (name, number), offset in offsets.items()])
    try:
        _read(consumer, out, written, count, until_end or last is not None, group is not None, without_end)
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        consumer.close()
        for reader in readers.values():
            reader.end()


def _readers(notices: Output, key_schema: str | None, value_schema: str | None) -> dict[str, Any]:
    """What reads keys and values by schemas."""
    if key_schema is None and value_schema is None:
        return {}
    from odradek.cli.values import Reader, Schemas, spec_of
    from odradek.schemas.registry_specs import KEY, VALUE

    schemas = Schemas()
    given = {KEY: (key_schema, "--key"), VALUE: (value_schema, "--value")}
    return {
        side: Reader(spec_of(text, option), side, schemas, notices)
        for side, (text, option) in given.items()
        if text is not None
    }


def _exact() -> str:
    """Have a file or a pipe get the bytes of records as they are; return how they become text then."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty() or stream.encoding.lower() != "utf-8":
        return "backslashreplace"
    stream.reconfigure(errors="surrogateescape")
    return "surrogateescape"


def _read(
    consumer: Consumer,
    notices: Output,
    written: Any,
    count: int | None,
    until_end: bool,
    store: bool,
    ended: set[tuple[str, int]],
) -> None:
    """Print records until it is enough; `ended` are partitions whose end is not waited for."""
    progress = RecordCounter("read")
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
                _print_refusal(notices, message, ended)
                if _all_ended(consumer, ended):
                    return
    finally:
        sys.stdout.flush()
        progress.end()


def _all_ended(consumer: Consumer, ended: Collection[tuple[str, int]]) -> bool:
    return all((place.topic, place.partition) in ended for place in consumer.assignment())


def _print_refusal(notices: Output, message: Message, ended: set[tuple[str, int]]) -> None:
    """Print what is refused of one partition, so that the others are read. Raises KafkaException otherwise."""
    topic, partition, error = message.topic(), message.partition(), message.error()
    if topic is None or partition is None or partition < 0 or error is None or error.fatal():
        raise KafkaException(error)
    with refusals(notices, {"partition": f"{topic}-{partition}"}):
        raise KafkaException(error)
    ended.add((topic, partition))
