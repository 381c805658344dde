"""The records of a topic: from an offset, from a time, by key or by a field of JSON; and one record whole.

They are found by a seek, and never are more than a bounded number read, looked through or shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from broker.console.ask import Ask, Values
from broker.console.filters import INSTALL, FilterError, is_there
from broker.console.formats import FORMATS, LONGEST, Shown, decoded
from broker.console.registry import Schemas, framed_parts
from broker.console.rows import is_parquet_there
from broker.console.searches import (
    LIMIT,
    SEARCHED,
    Read,
    RecordReader,
    is_committed,
    read,
    schemas_for,
    search,
    wanted_of,
)
from broker.console.tables import numbers, order_of, texts
from broker.console.topics import seen_topic
from broker.peers.leaders import NONE, Unknown
from broker.testkit.control.budget import Budget
from broker.testkit.control.endpoint import ControlError, time_of
from broker.testkit.control.topic_reader import Found
from broker.testkit.inspection.partitions import PartitionView, offsets_at_time, read_partitions
from metadata.topics import TopicImage
from odradek.schemas.framing import Framed
from protocol.records.cut import CutLimits

MOST_PARTITIONS = 50
"""A page reads that many partitions at most."""

STARTS = ("newest", "oldest", "offset", "time")


def wall_ms_of(text: str) -> int:
    """The time that somebody typed. Raises ControlError."""
    expected = f"time = {text!r}: expected a time in ISO 8601, as 2026-11-27T12:00:00Z"
    return int(time_of(text, ControlError(expected, parameter="time")).timestamp() * 1000)


async def seen_partitions(ask: Ask, topic: str, count: int) -> list[PartitionView]:
    """The partitions that the page reads: the one that is asked for, or the first. Raises ControlError."""
    indexes = range(min(count, MOST_PARTITIONS))
    if ask.text("partition"):
        index = ask.integer("partition")
        if index not in range(count):
            raise ControlError(f"partition = {index}: expected 0 to {count - 1}", parameter="partition")
        indexes = range(index, index + 1)
    return [*(await read_partitions(ask.node, [(topic, index) for index in indexes])).values()]


async def known_partitions(ask: Ask, topic: str, count: int, *, every: bool = False) -> list[PartitionView]:
    """Those of them whose leaders say where they begin and end.

    Raises ControlError if none does, or with `every` one does not.
    """
    seen = await seen_partitions(ask, topic, count)
    known = [one for one in seen if one.is_known]
    if not known or (every and len(known) < len(seen)):
        raise ControlError("; ".join(not_shown(seen)) or f"{topic} has no partitions", status=409)
    return known


def not_shown(seen: Sequence[PartitionView]) -> list[str]:
    """A sentence for each partition of which nothing is known."""
    return [f"{one.name} cannot be read: {one.unknown}" for one in seen if not one.is_known]


def readers_end(ask: Ask, one: PartitionView) -> int:
    """Where the readers end whose isolation is asked for."""
    return one.stable if is_committed(ask) else one.end


async def positions_of(ask: Ask, partitions: Sequence[PartitionView], share: int) -> dict[int, int]:
    """The offset from which each partition is read: `share` records before its end, or as the request says."""
    given = ask.text("at")
    if given:
        return _positions(given, {one.partition for one in partitions})
    start = ask.choice("from", STARTS)
    if start == "offset":
        return {one.partition: min(ask.integer("offset"), one.end) for one in partitions}
    if start == "time":
        return await _at_time(ask, partitions, wall_ms_of(ask.text("time")))
    if start == "oldest":
        return {one.partition: one.start for one in partitions}
    return {one.partition: max(one.start, one.end - share) for one in partitions}


def _positions(text: str, known: set[int]) -> dict[int, int]:
    """Offsets by partition, as `0:12,1:7`. Raises ControlError."""
    try:
        found = {int(index): int(offset) for index, offset in (one.split(":") for one in text.split(","))}
    except ValueError:
        found = {-1: -1}
    if not found.keys() <= known or not all(0 <= offset < 1 << 63 for offset in found.values()):
        raise ControlError(f"at = {text!r}: expected offsets by partition, as 0:12,1:7", parameter="at")
    return found


async def _at_time(ask: Ask, partitions: Sequence[PartitionView], wall_ms: int) -> dict[int, int]:
    """Where each partition has the first record of that time or later. Raises ControlError."""
    found: dict[int, int] = {}
    for leader in {one.leader for one in partitions}:
        led = {(one.topic, one.partition): one for one in partitions if one.leader == leader}
        for key, offset in (await offsets_at_time(ask.node, leader, led, wall_ms)).items():
            if isinstance(offset, Unknown):
                raise ControlError(f"{led[key].name} cannot be read: {offset.why}", status=409)
            found[key[1]] = led[key].end if offset == NONE else offset
    return dict(sorted(found.items()))


SHOWN_BYTES = 500
"""So much of each key and value is in the list."""


RECORDS = [
    numbers("partition", "Partition"),
    numbers("offset", "Offset"),
    texts("time", "Time", lambda row: row["timestamp"]),
    texts("key", "Key", lambda row: row["key"].text),
    texts("value", "Value", lambda row: row["value"].text),
    numbers("size", "Size", lambda row: row["value_bytes"]),
]


async def messages(ask: Ask) -> Values:
    topic = seen_topic(ask, "topic")
    seen = await seen_partitions(ask, topic.name, topic.partition_count)
    partitions = [one for one in seen if one.is_known]
    wanted, problem_of_filter = wanted_of(ask), ""
    form, committed = ask.choice("format", FORMATS), is_committed(ask)
    share = max((LIMIT if wanted.is_anything else SEARCHED) // max(len(partitions), 1), 1)
    before = await positions_of(ask, partitions, share)
    if wanted.is_anything:
        ask.budget.most = most_in_list(ask)
        found = await read(ask, topic.name, before, share, committed=committed)
    else:
        with ask.searches.one(ask.rights.user):
            try:
                found = await search(ask, topic.name, before, wanted, committed=committed)
            except FilterError as error:
                found, problem_of_filter = Read((), before, 0), str(error)
    schemas, problem = await schemas_for(ask, found.records, form)
    read_on = [one for one in partitions if one.partition in before and one.partition not in found.failed]
    at_end = all(found.positions[one.partition] >= one.end for one in read_on)
    given = {name: value for name, value in ask.given.items() if name not in ("at", "done")}
    starts = {one.partition: one.start for one in partitions}
    earlier = {index: max(offset - share, starts[index]) for index, offset in before.items()}
    order = order_of(ask, RECORDS)
    return {
        "order": order,
        "title": f"Messages of {topic.name}",
        "topic": topic.name,
        "partition_count": topic.partition_count,
        "read_partitions": len(seen),
        "not_shown": not_shown([replace(one, unknown=found.failed.get(one.partition, one.unknown)) for one in seen]),
        "rows": order.sort(await rows_of(ask, found.records, form, schemas)),
        "problem": problem,
        "stopped": found.stopped,
        "passed_over": ask.budget.passed_over,
        "searched": None if wanted.is_anything or problem_of_filter else found.searched,
        "filter": {
            "install": None if is_there() else INSTALL,
            "problem": problem_of_filter,
            "refused": found.refused,
            "why": found.why,
        },
        "given": given,
        "download": {
            "given": {name: value for name, value in given.items() if not name.startswith("sort")},
            "at": _text(before),
            "parquet": is_parquet_there(),
        },
        "earlier": _text(earlier) if earlier != before else None,
        "later": None if at_end else _text(found.positions),
        "asked": {
            "from": ask.choice("from", STARTS),
            **{name: ask.text(name) for name in ("partition", "offset", "time", "key", "field", "value", "filter")},
            "format": form,
            "committed": committed,
        },
        "starts": STARTS,
        "formats": FORMATS,
    }


def _text(positions: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in positions.items())


def most_in_list(ask: Ask) -> CutLimits:
    """What is kept of a record in a list: its beginning, unless a schema is needed for that."""
    content = SHOWN_BYTES if ask.registry is None else LONGEST
    return CutLimits(content, headers=20, header_content=2 * SHOWN_BYTES)


class Named(NamedTuple):
    """The id or GUID of the schema of a key or value. Not `is_sure`: its bytes only begin as if they had this id."""

    schema: int | str
    is_sure: bool


LONG_BYTES = 8
"""Numbers of this size begin with zeros, too."""


class Look(NamedTuple):
    """How records are shown. `no_registry`: what the beginnings of keys and values would be as ids is said."""

    form: str
    schemas: Schemas
    budget: Budget
    no_registry: bool
    most: int = LONGEST
    indented: bool = True

    def shown(self, content: bytes | None, part: Framed | None, more: int) -> tuple[Shown, Named | None]:
        """A key or value, of which `more` bytes were not read; `part` is what its schema is of it. Any thread."""
        schema = None if part is None else self.schemas.get(part.schema)
        if schema is not None and part is not None and not more:
            by_schema = schema.shown(part, self.most, self.budget, indented=self.indented)
            if by_schema is not None:
                return by_schema, Named(part.schema, is_sure=True)
        found = decoded(content, self.budget, self.form, self.most, more=more, indented=self.indented)
        if part is None or content is None:
            return found, None
        in_header = len(part.payload) == len(content)
        is_likely = bool(part.schema) and len(content) + more != LONG_BYTES
        return found, Named(part.schema, in_header) if in_header or (self.no_registry and is_likely) else None


async def rows_of(ask: Ask, found: Sequence[Found], form: str, schemas: Schemas) -> list[dict[str, Any]]:
    look = Look(form, schemas, ask.budget, ask.registry is None, SHOWN_BYTES, indented=False)
    return await ask.budget.run(ask.node, partial(_rows, tuple(found), look))


def _rows(found: Sequence[Found], look: Look) -> list[dict[str, Any]]:
    return [_row(one, look) for one in found]


def _row(found: Found, look: Look) -> dict[str, Any]:
    """Any thread: a value may be large."""
    record, left_out = found.record, found.left_out
    of_key, of_value = framed_parts(record) if look.form == "auto" else (None, None)
    key, key_schema = look.shown(record.key, of_key, left_out.key)
    value, value_schema = look.shown(record.value, of_value, left_out.value)
    return {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "key_schema": key_schema,
        "value_schema": value_schema,
        "value_bytes": None if record.value is None else len(record.value) + left_out.value,
        "headers": [
            (decoded(name, look.budget, "text", look.most).text, decoded(content, look.budget, "auto", look.most))
            for name, content in record.headers
        ],
        "more_headers": left_out.headers,
    }


async def found_record(ask: Ask, topic: TopicImage) -> Found:
    """The record that is asked for. Raises ControlError if there is none."""
    (partition,) = (await known_partitions(ask, topic.name, topic.partition_count))[:1]
    offset = ask.integer("offset")
    reader = RecordReader(ask.node, topic.name, {partition.partition: offset}, committed=False, budget=ask.budget)
    found = await reader.read(1)
    if not found or found[0].record.offset != offset:
        raise ControlError(f"{partition.name} has no record at offset {offset}", status=404)
    return found[0]


async def message(ask: Ask) -> Values:
    """One record, whole."""
    topic, form = seen_topic(ask, "topic"), ask.choice("format", FORMATS)
    found = await found_record(ask, topic)
    schemas, problem = await schemas_for(ask, [found], form)
    row = await ask.budget.run(ask.node, partial(_row, found, Look(form, schemas, ask.budget, ask.registry is None)))
    title = f"{topic.name}-{found.partition}, offset {found.record.offset}"
    return {"title": title, "topic": topic.name, "row": row, "form": form, "formats": FORMATS, "problem": problem}
