"""Writes records for the control interface, by the way that a Produce request takes: nothing is spared a check.

As JSON, bytes of a record that are UTF-8 are a text (`value`), others are base64 (`value_base64`); null is null.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from sys import maxsize
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from broker.node import Node
from broker.replication.appends import RecordsAppend
from broker.testkit.control.endpoint import ControlError, Endpoints, Kind, Parameter, Values
from broker.testkit.control.schema_writes import encoded
from broker.testkit.control.schemas import BY_SCHEMA, NONE, Schemas, schemas_of
from broker.testkit.control.topics import TOPIC, topic_of
from broker.testkit.inspection.partitions import read_topics
from metadata.topics import TopicImage
from protocol.api.table import API_BY_KEY
from protocol.errors import UnknownServerError, type_by_code
from protocol.murmur2 import partition_of_key
from protocol.produce_fetch.produce_messages import PartitionProduceResponse, ProduceResponse
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.build import Headers, Record, build_batch
from protocol.records.cut import NOTHING, LeftOut

ENDPOINTS = Endpoints()


class Produced(NamedTuple):
    """A record to be written; None as partition: the key decides, None as timestamp: now (ms)."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp: int | None


FIELDS = frozenset({"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"})
WHAT_A_RECORD_IS = "an object with value, key, headers, partition and timestamp, or value_base64 and key_base64"


def as_json(
    topic: str, partition: int, record: Record, left_out: LeftOut = NOTHING, schemas: Schemas = NONE
) -> dict[str, Any]:
    """A record as an endpoint answers it; `left_out` says of what there is more than an answer may have."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **bytes_as_json("key", record.key),
        **bytes_as_json("value", record.value),
        "headers": [
            {"key": name.decode(errors="replace"), **bytes_as_json("value", content)}
            for name, content in record.headers
        ],
        **({"left_out": left_out._asdict()} if any(left_out) else _by_schema(record, schemas)),
    }


def _by_schema(record: Record, schemas: Schemas) -> dict[str, Any]:
    """Key and value as JSON, with their schemas, if they have some."""
    found: dict[str, Any] = {}
    for decoded, (name, schema) in (
        (schemas.value(record), BY_SCHEMA["value"]),
        (schemas.key(record), BY_SCHEMA["key"]),
    ):
        if decoded is not None:
            found[schema] = decoded.as_json
            if decoded.problem is None:
                found[name] = decoded.value
    return found


def bytes_as_json(name: str, content: bytes | None) -> dict[str, str | None]:
    """`{name: text}`, or `{name_base64: text}` for what is no UTF-8."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def bytes_of(given: Mapping[str, Any], name: str, where: str = "") -> bytes | None:
    """The bytes that `given` has under `name` or `name_base64`; None if neither is there. Raises ControlError."""
    text, encoded = given.get(name), given.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise ControlError(f"{where}{name} and {name}_base64 are both given: expected one of them", parameter=name)
    if encoded is not None:
        name = f"{name}_base64"
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ControlError(f"{where}{name} = {encoded!r}: expected base64", parameter=name) from None
    if text is None:
        return None
    if not isinstance(text, str):
        raise ControlError(f"{where}{name} = {text!r}: expected a text, or {name}_base64", parameter=name)
    return _utf8(text, name, where)


def produced_record(given: object, at: int) -> Produced:
    """The record that a client wants to have written; `at` is its place in the list. Raises ControlError."""
    where = f"records[{at}]: "
    if not isinstance(given, dict):
        raise ControlError(f"{where}{given!r}: expected {WHAT_A_RECORD_IS}", parameter="records")
    for name in given:
        if name not in FIELDS:
            raise ControlError(f"{where}{name} is no field of a record: expected {WHAT_A_RECORD_IS}", parameter=name)
    return Produced(
        bytes_of(given, "key", where),
        bytes_of(given, "value", where),
        headers_of(given.get("headers"), where),
        _integer(given, "partition", where, 2**31 - 1),
        _integer(given, "timestamp", where, 2**63 - 1),
    )


def headers_of(given: object, where: str = "") -> Headers:
    """Headers, of an object of texts (`{"value_base64": ...}` for bytes), or of a list with a `key` in each.

    Raises ControlError.
    """
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [
            {**value, "key": name} if isinstance(value, dict) else {"key": name, "value": value}
            for name, value in given.items()
        ]
    if not isinstance(given, list) or not all(
        isinstance(header, dict) and isinstance(header.get("key"), str) for header in given
    ):
        raise ControlError(
            f'{where}headers = {given!r}: expected an object of texts, or a list of {{"key": ..., "value": ...}} '
            "(value_base64 for bytes)",
            parameter="headers",
        )
    where = f"{where}headers: "
    return tuple((_utf8(header["key"], "key", where), bytes_of(header, "value", where)) for header in given)


def _utf8(text: str, name: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ControlError(f"{where}{name} = {text!r}: expected Unicode text", parameter=name) from None


def _integer(given: Mapping[str, Any], name: str, where: str, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ControlError(f"{where}{name} = {value!r}: expected a whole number from 0 on", parameter=name)
    return value


RECORDS = Parameter(
    "records",
    Kind.ARRAY,
    f"each {WHAT_A_RECORD_IS} (ms); json and key_json are encoded by the latest schema of the topic's subject, or by "
    "schema and key_schema: {id}, or {subject, version}; and {message} of Protobuf",
    required=True,
)


PRODUCE_KEY = 0
TIMEOUT_MS = 30_000
MOST_IN_A_BATCH = 10_000
BATCH_BYTES = 512 << 10
"""A batch has about this many bytes at most, as those of clients, or less where the topic allows less."""

BESIDES = 64
"""The most bytes that a record, or a header, takes besides its contents."""


BUILT_AT_ONCE = 50
"""More records than these are put into batches by a worker thread."""


@ENDPOINTS(
    "POST /topics/{topic}/records",
    "Write records as a producer with acks=all; a key decides on the partition as Java's producer does.",
    TOPIC,
    RECORDS,
)
async def _produce(node: Node, values: Values) -> dict[str, Any]:
    topic = topic_of(node, values["topic"])
    given = await encoded(node, topic.name, values["records"])
    workers = node.replicas.logs.services.workers
    read = partial(_read, given)
    records = read() if len(given) <= BUILT_AT_ONCE else await workers.call(read)
    written = await produce(node, topic, records)
    return {"records": written}


@ENDPOINTS(
    "POST /topics/{topic}/distribution",
    "The partitions that these records would be written to; nothing is written.",
    TOPIC,
    RECORDS,
)
async def _distribution(node: Node, values: Values) -> dict[str, Any]:
    """Where records would be written: for who has to find the leader first."""
    topic = topic_of(node, values["topic"])
    records = _read(await encoded(node, topic.name, values["records"]))
    by_partition = await distributed(node, topic, records)
    chosen = {place: index for index, places in by_partition.items() for place in places}
    return {"partitions": [chosen[place] for place in range(len(records))]}


def _read(given: Sequence[object]) -> list[Produced]:
    return [produced_record(record, at) for at, record in enumerate(given)]


async def produce(node: Node, topic: TopicImage, records: Sequence[Produced]) -> list[dict[str, Any]]:
    """Write the records in their order; return them with their places, as JSON.

    Raises ControlError if one cannot be written; those before it in its partition are.
    """
    by_partition = await distributed(node, topic, records)
    workers = node.replicas.logs.services.workers
    written: list[dict[str, Any]] = [{} for _ in records]
    now_ms = node.local.clock.wall_ms()
    for index, places in by_partition.items():
        partition = node.replicas.get(topic.name, index)
        most_bytes = BATCH_BYTES if partition is None else min(BATCH_BYTES, partition.log.config.max_message_bytes)
        for several in _batches(records, places, most_bytes):
            new = [
                Record(
                    at,
                    now_ms if record.timestamp is None else record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                )
                for at, record in enumerate(records[place] for place in several)
            ]
            build = partial(build_batch, new)
            batch = build() if len(new) <= BUILT_AT_ONCE else await workers.call(build)
            answer = await _append(node, topic.name, index, batch)
            if answer.error_code:
                raise _refused(topic.name, several, answer, sum(map(bool, written)), len(records))
            first, appended_ms = answer.base_offset, answer.log_append_time_ms
            schemas = await schemas_of(node, new)
            describe = partial(_described, topic.name, index, tuple(new), first, appended_ms, schemas)
            is_quick = len(new) <= BUILT_AT_ONCE and not schemas.codecs
            described = describe() if is_quick else await workers.call(describe)
            for place, record in zip(several, described, strict=True):
                written[place] = record
    return written


def _described(
    topic: str, partition: int, records: Sequence[Record], first: int, appended_ms: int, schemas: Schemas
) -> list[dict[str, Any]]:
    """The records as JSON, with their offsets from `first` on, and the time of the log if it has set that."""
    described = []
    for record in records:
        timestamp = record.timestamp if appended_ms == NO_TIMESTAMP else appended_ms
        stored = record._replace(offset=first + record.offset, timestamp=timestamp)
        described.append(as_json(topic, partition, stored, schemas=schemas))
    return described


async def _ends(node: Node, topic: TopicImage) -> list[int]:
    """The ends of the topic's partitions; of one whose leader does not tell it, far away."""
    found = await read_topics(node, [topic.name], patience_ms=0)
    led = {key: node.replicas.get(*key) for key, one in found.items() if one.leader == node.node_id}
    return [
        partition.log_end_offset if (partition := led.get(key)) is not None else one.end if one.is_known else maxsize
        for key, one in found.items()
    ]


async def distributed(node: Node, topic: TopicImage, records: Sequence[Produced]) -> dict[int, list[int]]:
    """The places of the records in the list, by partition. Without a key, the shortest partition gets a record."""
    count = topic.partition_count
    is_free = any(record.partition is None and record.key is None for record in records)
    ends = await _ends(node, topic) if is_free else [0] * count
    places: dict[int, list[int]] = {}
    for place, record in enumerate(records):
        if record.partition is not None:
            index = record.partition
            if index >= count:
                raise ControlError(
                    f"records[{place}]: partition = {index}: expected 0 to {count - 1}, as {topic.name} has {count} "
                    "partitions",
                    parameter="partition",
                )
        elif record.key is not None:
            index = partition_of_key(record.key, count)
        else:
            index = ends.index(min(ends))
        ends[index] += 1
        places.setdefault(index, []).append(place)
    return places


def _batches(records: Sequence[Produced], places: Sequence[int], most_bytes: int) -> Iterator[list[int]]:
    batch: list[int] = []
    size = BESIDES
    for place in places:
        record = records[place]
        bytes_of_it = BESIDES + len(record.key or b"") + len(record.value or b"")
        bytes_of_it += sum(BESIDES + len(name) + len(content or b"") for name, content in record.headers)
        if batch and (size + bytes_of_it > most_bytes or len(batch) == MOST_IN_A_BATCH):
            yield batch
            batch, size = [], BESIDES
        batch.append(place)
        size += bytes_of_it
    if batch:
        yield batch


async def _append(node: Node, topic: str, index: int, batch: bytearray) -> PartitionProduceResponse:
    """Append with acks=all."""
    replicas, clock = node.replicas, node.local.clock
    version = API_BY_KEY[PRODUCE_KEY].highest
    append = RecordsAppend(replicas, node.local.metrics, -1, version, clock.wall_ms(), {}, to_internal=False)
    append.append(topic, topic, [(index, memoryview(batch))])
    await append.append_large(None)
    if append.unacknowledged:
        await replicas.when_committed(append.unacknowledged, TIMEOUT_MS, ProduceResponse(append.topics))
    return append.topics[0][1][0]


def _refused(
    topic: str, places: Sequence[int], answer: PartitionProduceResponse, written: int, count: int
) -> ControlError:
    code = ErrorCode(answer.error_code)
    text = answer.error_message or type_by_code.get(code, UnknownServerError).default_message
    which = f"records[{places[0]}]" if len(places) == 1 else f"records[{places[0]}] to records[{places[-1]}]"
    reasons = "".join(
        f"; record {wrong.batch_index}: {wrong.message}" for wrong in answer.record_errors if wrong.message
    )
    return ControlError(
        f"{code.name.upper()}: {text}{reasons} ({which}, for {topic}-{answer.index}; {written} of {count} records were "
        "written)",
        parameter="records",
        status=409,
    )
