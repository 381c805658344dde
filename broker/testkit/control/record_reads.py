"""Reads records for the control interface, and waits for them: in the broker, until they are there.

One wait compares two topics: whether each record of one led to exactly one of the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from broker.node import Node
from broker.testkit.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.testkit.control.held_back import held_back
from broker.testkit.control.record_json import PARAMETERS, Difference, Expected, as_json, distance, shown
from broker.testkit.control.topic_reader import KEPT_BYTES, Found, TopicReader
from broker.testkit.control.topics import PARTITION, TOPIC, partitions_of, topic_of
from broker.testkit.inspection.partitions import leader_of
from protocol.errors import NotLeaderOrFollower
from protocol.metadata.topics import NO_LEADER
from protocol.records.build import Record

MOST_RECORDS = 2_000
"""The most records of an answer."""

LOOKED_AT_ONCE, LOOKED_AT_ONCE_BYTES = 100, 64 << 10
"""More records than these are compared by a worker thread."""

LAST_SHOWN = 5
DEFAULT_TIMEOUT_S = 5.0

COMMITTED = Parameter(
    "committed",
    Kind.BOOLEAN,
    "true (the default): as a read_committed consumer, without open and aborted transactions",
)
FROM = Parameter("from", Kind.STRING, "the first offset: one for all partitions (12), or by partition (0:12,1:7)")
TIMEOUT = Parameter("timeout", Kind.NUMBER, "how long to wait, in seconds", least=0)


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


async def _read(node: Node, values: Values) -> bytes:
    """Records, and where to go on. With a timeout, wait for the first."""
    reader = reader_of(node, values)
    limit = min(values.get("limit", MOST_RECORDS), MOST_RECORDS)
    found: list[Found] = []

    async def is_there() -> bool:
        found.extend(await reader.read_on(limit))
        return bool(found)

    await until(reader, is_there, values.get("timeout", 0))
    rest = {
        "next": {str(index): offset for index, offset in reader.positions.items()},
        "more": len(found) >= limit or reader.budget.is_spent,
        "passed_over": [
            {"partition": index, "from": first, "to": behind} for index, first, behind in reader.budget.passed_over
        ],
    }
    return await reader.budget.run(node, partial(_answer, values["topic"], tuple(found), rest))


def _answer(topic: str, found: Sequence[Found], rest: dict[str, Any]) -> bytes:
    """Any thread: there may be megabytes of them."""
    return json.dumps({"records": [as_json(topic, *one) for one in found], **rest}, ensure_ascii=False).encode()


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

    def look_at(self, found: list[Found]) -> None:
        self.seen += len(found)
        self.last = [*self.last, *found][-LAST_SHOWN:]
        for one in found:
            differences = self.expected.differences(one.record)
            if not differences:
                self.found.append(one)
                self.found_bytes += one.size
            elif self.nearest is None or distance(differences) <= distance(self.nearest[1]):
                self.nearest = one, differences

    def matches(self, record: Record) -> bool:
        return not self.expected.differences(record)

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
                f"  partition {partition}, offset {record.offset}: key {shown(record.key)}, value {shown(record.value)}"
                for partition, record, _ in self.last
            ]
        return "\n".join(lines)


async def _wait(node: Node, values: Values) -> bytes:
    """Wait until so many records are there, and return them."""
    reader = reader_of(node, values)
    timeout = values.get("timeout", DEFAULT_TIMEOUT_S)
    search = _Search(values["topic"], Expected.of(values), values.get("count", 1))

    async def are_there() -> bool:
        while found := await reader.read_on(MOST_RECORDS):
            look = partial(search.look_at, found)
            is_quick = len(found) <= LOOKED_AT_ONCE and sum(one.size for one in found) <= LOOKED_AT_ONCE_BYTES
            look() if is_quick else await reader.budget.run(node, look)
            if search.found_bytes > KEPT_BYTES:
                raise ControlError(
                    f"{len(search.found)} records match, of {search.found_bytes} bytes: expect one that fewer "
                    "records match, or read them with GET, where `next` goes on",
                    status=413,
                )
        return len(search.found) >= search.count

    if not await until(reader, are_there, timeout):
        held = await _held_back(node, values, reader, search)
        raise ControlError("\n".join([search.failure(timeout), *held]), status=408)
    return await reader.budget.run(node, partial(_answer, values["topic"], tuple(search.found), {}))


async def _held_back(node: Node, values: Values, reader: TopicReader, search: _Search) -> list[str]:
    """Say which records would match, if readers of committed records were given them."""
    if not values.get("committed", True):
        return []
    return await held_back(node, values["topic"], reader.positions, search.matches)


async def until(reader: TopicReader, done: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Call `done` now and after every change, until it is true; False if the time is up before.

    The time is that of the loop: a broker whose clock stands still for a test answers nonetheless.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while not await done():
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        try:
            await asyncio.wait_for(reader.wait(), left)
        except TimeoutError:
            return await done()
    return True


async def _require(node: Node, values: Values) -> None:
    """Wait until the sink is right. Raises ControlError if it is not in time, or can never be."""
    from odradek import assertions

    try:
        identify = assertions.identity(values.get("key", "key"))
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error
    source, sink = (_Topic(node, values[name], name) for name in ("source", "sink"))
    problems: list[str] = []

    async def is_right() -> bool:
        await sink.read()  # first: what it was made of is then in the source
        await source.read()
        compare = partial(_compare, source.records, sink.records, identify)
        found, may_mend = await node.replicas.logs.services.workers.call(compare)
        problems[:] = found
        if found and not may_mend:
            raise _wrong(values, found)
        return not found

    if not await until(sink.reader, is_right, values.get("timeout", DEFAULT_TIMEOUT_S)):
        raise _wrong(values, problems)


MOST_BYTES = 256 << 20
"""Of one topic, whose records are all kept to be compared."""


class _Topic:
    """A topic that is read on."""

    def __init__(self, node: Node, name: str, parameter: str) -> None:
        try:
            self.reader: TopicReader = reader_of(node, {"topic": name})
        except ControlError as error:
            raise ControlError(str(error), parameter=parameter, status=error.status) from error
        self.name = name
        self.records: list[dict[str, Any]] = []
        self._bytes = 0

    async def read(self) -> None:
        while found := await self.reader.read_on(MOST_RECORDS):
            self._bytes += sum(one.size for one in found)
            if self._bytes > MOST_BYTES:
                raise ControlError(f"{self.name} has more than {MOST_BYTES} bytes: compare smaller topics", status=413)
            self.records += [as_json(self.name, *record) for record in found]


def _compare(
    source: list[dict[str, Any]], sink: list[dict[str, Any]], identify: Callable[[Any], Hashable]
) -> tuple[list[str], bool]:
    from odradek import assertions
    from odradek.record import Record

    try:
        return assertions.violations(map(Record.of, source), map(Record.of, sink), identify)
    except ValueError as error:
        raise ControlError(str(error), parameter="key") from error


def _wrong(values: Values, problems: list[str]) -> ControlError:
    from odradek import assertions

    return ControlError(assertions.summary(values["source"], values["sink"], problems), status=408)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/topics/{topic}/records",
        "Read records; with a timeout, wait for the first. `next` has the offsets to go on from (as `from`), `more` "
        "whether there are more. Of what is too large `left_out` and `passed_over` say what is not given.",
        _read,
        (
            TOPIC,
            PARTITION,
            FROM,
            COMMITTED,
            Parameter("limit", Kind.INTEGER, f"the most records, {MOST_RECORDS} if not given", least=1),
            TIMEOUT,
        ),
    ),
    Endpoint(
        "POST",
        "/topics/{topic}/wait",
        "Wait until a topic has records, or records that match; status 408, with the nearest one, if it has not.",
        _wait,
        (
            TOPIC,
            PARTITION,
            FROM,
            COMMITTED,
            Parameter("count", Kind.INTEGER, "how many records, 1 if not given", least=0),
            TIMEOUT,
            *PARAMETERS,
        ),
    ),
    Endpoint(
        "POST",
        "/exactly-once",
        "Wait until each record of a topic led to exactly one committed record of another; status 408 if it did not.",
        _require,
        (
            Parameter("source", Kind.STRING, "the topic that was read", required=True),
            Parameter("sink", Kind.STRING, "the topic that was written", required=True),
            Parameter(
                "key", Kind.STRING, "what belongs together: key (if not given), value, value.FIELD or headers.NAME"
            ),
            TIMEOUT,
        ),
    ),
)
