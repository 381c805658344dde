"""Reads records for the control interface, and waits for them: in the broker, until they are there.

A wait may be for records that are as expected; when its time is up, its error says in what the nearest one differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from broker.node import Node
from broker.testkit.control.budget import KEPT_BYTES
from broker.testkit.control.endpoint import (
    DEFAULT_TIMEOUT_S,
    TIMED_OUT,
    TIMEOUT,
    Changes,
    ControlError,
    Endpoints,
    Kind,
    Parameter,
    Values,
    until,
)
from broker.testkit.control.held_back import held_back
from broker.testkit.control.record_writes import as_json, bytes_of, headers_of
from broker.testkit.control.schemas import NONE, Decoded, Schemas, schemas_of
from broker.testkit.control.topic_reader import Found, TopicReader
from broker.testkit.control.topics import PARTITION, TOPIC, partitions_of, topic_of
from broker.testkit.inspection.partitions import leader_of
from odradek.schemas.json_text import json_of
from protocol.errors import NotLeaderOrFollower
from protocol.metadata.topics import NO_LEADER
from protocol.records.build import Headers, Record

ENDPOINTS = Endpoints()


LONGEST_SHOWN = 200


class Difference(NamedTuple):
    """A field of a record that is not as expected; both as text. It stands for so many `fields` of JSON."""

    field: str
    expected: str
    actual: str
    fields: int = 1


PARAMETERS = (
    Parameter("key", Kind.STRING, "the key, as text"),
    Parameter("key_base64", Kind.STRING, "the key, as base64"),
    Parameter("value", Kind.STRING, "the value, as text"),
    Parameter("value_base64", Kind.STRING, "the value, as base64"),
    Parameter(
        "json", Kind.OBJECT, "what the value, JSON or decoded by its schema, has at least: more fields may be there"
    ),
    Parameter("key_json", Kind.OBJECT, "the same of the key"),
    Parameter("tombstone", Kind.BOOLEAN, "true: the value is null"),
    Parameter("headers", Kind.OBJECT, "headers that are there, name to text: more may be there"),
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a record has to be; None for what may be anything."""

    key: bytes | None = None
    value: bytes | None = None
    json: dict[str, Any] | None = None
    tombstone: bool = False
    headers: Headers = ()
    key_json: dict[str, Any] | None = None

    @classmethod
    def of(cls, values: Values) -> Expected:
        """What a request with `PARAMETERS` expects. Raises ControlError if they exclude each other."""
        value = bytes_of(values, "value")
        wanted = cls(
            bytes_of(values, "key"),
            value,
            values.get("json"),
            values.get("tombstone", False),
            headers_of(values.get("headers")),
            values.get("key_json"),
        )
        if (value is not None) + (wanted.json is not None) + wanted.tombstone > 1:
            raise ControlError("value, json and tombstone exclude each other: expected one of them", parameter="value")
        return wanted

    @property
    def is_anything(self) -> bool:
        return self == Expected()

    def differences(self, record: Record, schemas: Schemas = NONE) -> list[Difference]:
        """The differences; none if the record matches."""
        return list(self._differences(record, schemas))

    def _differences(self, record: Record, schemas: Schemas) -> Iterator[Difference]:
        if self.key is not None and record.key != self.key:
            yield Difference("key", shown(self.key), shown(record.key))
        if self.value is not None and record.value != self.value:
            yield Difference("value", shown(self.value), shown(record.value))
        if self.tombstone and record.value is not None:
            yield Difference("value", shown(None), shown(record.value))
        if self.json is not None:
            yield from _json_differences("value", self.json, record.value, schemas.value(record))
        if self.key_json is not None:
            yield from _json_differences("key", self.key_json, record.key, schemas.key(record))
        actual = dict(record.headers)
        for name, content in self.headers:
            field = f"headers.{name.decode()}"
            if name not in actual:
                yield Difference(field, shown(content), "nothing")
            elif (name, content) not in record.headers:
                yield Difference(field, shown(content), shown(actual[name]))

    def __str__(self) -> str:
        parts = [] if self.key is None else [f"key {shown(self.key)}"]
        if self.key_json is not None:
            parts.append(f"key {_as_text(self.key_json)}")
        if self.value is not None:
            parts.append(f"value {shown(self.value)}")
        if self.json is not None:
            parts.append(f"value {_as_text(self.json)}")
        if self.tombstone:
            parts.append("value null")
        parts += [f"header {name.decode()} {shown(content)}" for name, content in self.headers]
        return " and ".join(parts) or "any record"


def _json_differences(
    field: str, expected: Any, content: bytes | None, decoded: Decoded | None
) -> Iterator[Difference]:
    if decoded is not None and decoded.problem is None:
        yield from subset_differences(field, expected, decoded.value)
        return
    told = _told(content, decoded)
    if decoded is not None and (content or b"").startswith(b"\0"):
        yield Difference(field, _as_text(expected), told, 1 + _leaves(expected))
        return
    try:
        actual = json_of(content or b"")
    except json.JSONDecodeError:
        yield Difference(field, _as_text(expected), f"{told}, which is no JSON", 1 + _leaves(expected))
    except ValueError as error:  # no UTF-8, a number of too many digits, too many levels
        is_none = f"{told}, which is no JSON that can be compared: {error}"
        yield Difference(field, _as_text(expected), is_none, 1 + _leaves(expected))
    else:
        yield from subset_differences(field, expected, actual)


def subset_differences(field: str, expected: Any, actual: Any) -> Iterator[Difference]:
    """Where `actual` lacks what `expected` has. Objects may have more fields; lists have the same length."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, part in expected.items():
            if name in actual:
                yield from subset_differences(f"{field}.{name}", part, actual[name])
            else:
                yield Difference(f"{field}.{name}", _as_text(part), "nothing", _leaves(part))
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for at, (part, actual_part) in enumerate(zip(expected, actual, strict=True)):
            yield from subset_differences(f"{field}[{at}]", part, actual_part)
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        yield Difference(field, _as_text(expected), _as_text(actual), _leaves(expected))


def _leaves(expected: Any) -> int:
    """How many values a JSON value has."""
    if isinstance(expected, dict):
        return sum(map(_leaves, expected.values()))
    return sum(map(_leaves, expected)) if isinstance(expected, list) else 1


def distance(differences: Iterable[Difference]) -> int:
    """How far a record is from the expected one."""
    return sum(difference.fields for difference in differences)


def shown(content: bytes | None) -> str:
    """Bytes as a text to read."""
    if content is None:
        return "null"
    try:
        text = json.dumps(content.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        text = repr(content)
    return _cut(text)


def _told(content: bytes | None, decoded: Decoded | None) -> str:
    """A content, as its schema has it if it names one."""
    if decoded is None:
        return shown(content)
    if decoded.problem is not None:
        return f"{shown(content)} (schema {decoded.schema}: {decoded.problem})"
    return f"{_as_text(decoded.value)} (schema {decoded.schema})"


def _as_text(value: Any) -> str:
    """As JSON; half of a surrogate pair, which is no text, stays the escape that it was."""
    return _cut(json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"


MOST_RECORDS = 2_000
"""The most records of an answer."""
COMMITTED = Parameter(
    "committed",
    Kind.BOOLEAN,
    "true (the default): as a read_committed consumer, without open and aborted transactions",
)
FROM = Parameter("from", Kind.STRING, "the first offset: one for all partitions (12), or by partition (0:12,1:7)")


LOOKED_AT_ONCE, LOOKED_AT_ONCE_BYTES = 100, 64 << 10
"""More records than these are compared by a worker thread."""

LAST_SHOWN = 5


def reader_of(node: Node, values: Values) -> TopicReader:
    """A reader for the parameters topic, partition, from and committed. Raises ControlError."""
    topic = topic_of(node, values["topic"])
    positions = {index: 0 for name, index in partitions_of(topic, values) if _is_here(node, name, index)}
    for index, offset in _offsets(values.get("from", "0"), positions).items():
        partition = node.replicas.get(topic.name, index)
        end = 0 if partition is None else partition.high_watermark
        if offset > end:
            raise ControlError(f"from = {offset}: {topic.name}-{index} ends at {end}", parameter="from")
        positions[index] = offset
    return TopicReader(node, topic.name, positions, committed=values.get("committed", True))


def _is_here(node: Node, topic: str, index: int) -> bool:
    """Raises NotLeaderOrFollower if another broker leads the partition: who reads it here would miss records."""
    leader = leader_of(node, (topic, index))
    if leader not in (None, NO_LEADER, node.node_id):
        raise NotLeaderOrFollower(f"broker {leader} leads {topic}-{index}: ask that broker for this partition")
    return node.replicas.get(topic, index) is not None


def _offsets(text: str, positions: dict[int, int]) -> dict[int, int]:
    try:
        if ":" not in text:
            parsed = dict.fromkeys(positions, int(text))
        else:
            parsed = {int(index): int(offset) for index, offset in (pair.split(":") for pair in text.split(","))}
    except ValueError:
        parsed = {-1: -1}
    if min(parsed.values(), default=0) < 0:
        raise ControlError(
            f"from = {text!r}: expected an offset (12), or offsets by partition (0:12,1:7)", parameter="from"
        )
    unknown = parsed.keys() - positions.keys()
    if unknown:
        raise ControlError(f"from = {text!r}: partition {min(unknown)} is not read", parameter="from")
    return parsed


@ENDPOINTS(
    "GET /topics/{topic}/records",
    "Read records; with a timeout, wait for the first. `next` has the offsets to go on from (as `from`), `more` "
    "whether there are more. Of what is too large `left_out` and `passed_over` say what is not given.",
    TOPIC,
    PARTITION,
    FROM,
    COMMITTED,
    Parameter("limit", Kind.INTEGER, f"the most records, {MOST_RECORDS} if not given", least=1),
    TIMEOUT,
)
async def _read(node: Node, values: Values) -> bytes:
    """Records, and where to go on. With a timeout, wait for the first."""
    reader = reader_of(node, values)
    limit = min(values.get("limit", MOST_RECORDS), MOST_RECORDS)
    found: list[Found] = []

    async def is_there(changes: Changes) -> bool:
        found.extend(await reader.read_on(limit))
        if not found:
            changes.follow_once(reader, reader.listen)
        return bool(found)

    await until(is_there, values.get("timeout", 0))
    rest = {
        "next": {str(index): offset for index, offset in reader.positions.items()},
        "more": len(found) >= limit or reader.budget.is_spent,
        "passed_over": [
            {"partition": index, "from": first, "to": behind} for index, first, behind in reader.budget.passed_over
        ],
    }
    schemas = await schemas_of(node, (one.record for one in found))
    return await reader.budget.run(node, partial(_answer, values["topic"], tuple(found), rest, schemas))


def _answer(topic: str, found: Sequence[Found], rest: dict[str, Any], schemas: Schemas) -> bytes:
    """Any thread: there may be megabytes of them."""
    records = [as_json(topic, *one, schemas) for one in found]
    return json.dumps({"records": records, **rest}, ensure_ascii=False).encode(errors="backslashreplace")


@dataclass(slots=True)
class _Search:
    """Looks for `count` records that match, and remembers what came nearest."""

    topic: str
    expected: Expected
    count: int
    found: list[Found] = field(default_factory=list)
    found_bytes: int = 0
    seen: int = 0
    last: list[Found] = field(default_factory=list)
    nearest: tuple[Found, list[Difference]] | None = None
    schemas: Schemas = NONE

    def look_at(self, found: list[Found]) -> None:
        self.seen += len(found)
        self.last = [*self.last, *found][-LAST_SHOWN:]
        for one in found:
            differences = self.expected.differences(one.record, self.schemas)
            if not differences:
                self.found.append(one)
                self.found_bytes += one.size
            elif self.nearest is None or distance(differences) <= distance(self.nearest[1]):
                self.nearest = one, differences

    def matches(self, record: Record) -> bool:
        return not self.expected.differences(record, self.schemas)

    def failure(self, timeout: float) -> str:
        what = f"{self.count} records" if self.expected.is_anything else f"a record with {self.expected}"
        if self.count > 1 and not self.expected.is_anything:
            what = f"{self.count} records with {self.expected}"
        lines = [f"{self.topic} did not have {what} within {timeout:g} s: {len(self.found)} of {self.seen} match"]
        if self.nearest is not None:
            (partition, record, _), differences = self.nearest
            lines.append(f"the nearest is offset {record.offset} of partition {partition}:")
            lines += [
                f"  {difference.field}: expected {difference.expected}, is {difference.actual}"
                for difference in differences
            ]
        elif self.last:
            lines.append("the last ones:")
            lines += [
                f"  partition {partition}, offset {record.offset}: key {_told(record.key, self.schemas.key(record))}, "
                f"value {_told(record.value, self.schemas.value(record))}"
                for partition, record, _ in self.last
            ]
        return "\n".join(lines)


@ENDPOINTS(
    "POST /topics/{topic}/wait",
    "Wait until a topic has records, or records that match; status 408, with the nearest one, if it has not.",
    TOPIC,
    PARTITION,
    FROM,
    COMMITTED,
    Parameter("count", Kind.INTEGER, "how many records, 1 if not given", least=0),
    TIMEOUT,
    *PARAMETERS,
)
async def _wait(node: Node, values: Values) -> bytes:
    """Wait until so many records are there, and return them."""
    reader = reader_of(node, values)
    timeout = values.get("timeout", DEFAULT_TIMEOUT_S)
    search = _Search(values["topic"], Expected.of(values), values.get("count", 1))

    async def are_there(changes: Changes) -> bool:
        while found := await reader.read_on(MOST_RECORDS):
            search.schemas = await schemas_of(node, (one.record for one in found), search.schemas)
            look = partial(search.look_at, found)
            is_quick = len(found) <= LOOKED_AT_ONCE and sum(one.size for one in found) <= LOOKED_AT_ONCE_BYTES
            look() if is_quick else await reader.budget.run(node, look)
            if search.found_bytes > KEPT_BYTES:
                raise ControlError(
                    f"{len(search.found)} records match, of {search.found_bytes} bytes: expect one that fewer "
                    "records match, or read them with GET, where `next` goes on",
                    status=413,
                )
        changes.follow_once(reader, reader.listen)
        return len(search.found) >= search.count

    if not await until(are_there, timeout):
        held = await _held_back(node, values, reader, search)
        raise ControlError("\n".join([search.failure(timeout), *held]), status=TIMED_OUT)
    return await reader.budget.run(node, partial(_answer, values["topic"], tuple(search.found), {}, search.schemas))


async def _held_back(node: Node, values: Values, reader: TopicReader, search: _Search) -> list[str]:
    """Say which records would match, if readers of committed records were given them."""
    committed = values.get("committed", True)
    return await held_back(node, values["topic"], reader.positions, search.matches) if committed else []
