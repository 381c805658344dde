"""The records of a topic: from an offset, from a time, by key or by a field of JSON; and one record whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from broker.console.ask import Ask, Page
from broker.console.decoding import FORMATS, LONGEST, Shown, decoded
from broker.console.records import (
    AT_ONCE_BYTES,
    LIMIT,
    SEARCHED,
    STARTS,
    Wanted,
    positions_of,
    read,
    read_partitions,
    search,
)
from broker.console.registry import RegistryError, Schemas, schema_id_of
from broker.console.topic import seen_topic
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topic_reader import Budget, Found, TopicReader
from protocol.records.cut import CutLimits

SHOWN_BYTES = 500
"""So much of each key and value is in the list."""


async def messages(ask: Ask) -> Page:
    topic = seen_topic(ask, "topic")
    partitions = read_partitions(ask, topic.name, topic.partition_count)
    wanted = Wanted(ask.text("key"), ask.text("field"), ask.text("value"))
    form, committed = ask.choice("format", FORMATS), is_committed(ask)
    share = max((LIMIT if wanted.is_anything else SEARCHED) // len(partitions), 1)
    before = await positions_of(ask, partitions, share)
    if wanted.is_anything:
        ask.budget.most = most_in_list(ask)
        found = await read(ask, topic.name, before, share, committed=committed)
    else:
        with ask.searches.one(ask.rights.user):
            found = await search(ask, topic.name, before, wanted, committed=committed)
    schemas, problem = await schemas_for(ask, found.records, form)
    at_end = all(found.positions[one.index] >= one.high_watermark for one in partitions if one.index in before)
    given = {name: value for name, value in ask.given.items() if name not in ("at", "done")}
    starts = {one.index: one.log_start_offset for one in partitions}
    earlier = {index: max(offset - share, starts[index]) for index, offset in before.items()}
    return Page(
        "messages.html",
        f"Messages of {topic.name}",
        {
            "topic": topic.name,
            "partition_count": topic.partition_count,
            "read_partitions": len(partitions),
            "rows": await rows_of(ask, found.records, form, schemas),
            "problem": problem,
            "stopped": found.stopped,
            "passed_over": ask.budget.passed_over,
            "searched": None if wanted.is_anything else found.searched,
            "given": given,
            "earlier": _text(earlier) if earlier != before else None,
            "later": None if at_end else _text(found.positions),
            "asked": {
                "from": ask.choice("from", STARTS),
                **{name: ask.text(name) for name in ("partition", "offset", "time", "key", "field", "value")},
                "format": form,
                "committed": committed,
            },
            "starts": STARTS,
            "formats": FORMATS,
        },
    )


def is_committed(ask: Ask) -> bool:
    return ask.text("isolation") != "uncommitted"


def _text(positions: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in positions.items())


def most_in_list(ask: Ask) -> CutLimits:
    """What is kept of a record in a list: its beginning, unless a schema is needed for that."""
    content = SHOWN_BYTES if ask.registry is None else LONGEST
    return CutLimits(content, headers=20, header_content=2 * SHOWN_BYTES)


async def rows_of(ask: Ask, found: Sequence[Found], form: str, schemas: Schemas) -> list[dict[str, Any]]:
    rows = partial(_rows, tuple(found), form, schemas, ask.budget)
    return await ask.budget.run(ask.node, rows)


def _rows(found: Sequence[Found], form: str, schemas: Schemas, budget: Budget) -> list[dict[str, Any]]:
    return [_row(one, form, SHOWN_BYTES, schemas, budget) for one in found]


async def schemas_for(ask: Ask, found: Sequence[Found], form: str) -> tuple[Schemas, str | None]:
    """The schemas of keys and values, and why there are none, if that is to be said."""
    if ask.registry is None or form != "auto":
        return {}, None
    contents = [content for one in found for content in (one.record.key, one.record.value)]
    try:
        return await ask.registry.schemas_of(contents), None
    except RegistryError as error:
        return {}, str(error)


def _row(
    found: Found, form: str, most: int, schemas: Schemas, budget: Budget, *, indented: bool = False
) -> dict[str, Any]:
    """Any thread: a value may be large."""
    record, left_out = found.record, found.left_out

    def shown(content: bytes | None, more: int) -> Shown:
        schema = schemas.get(-1 if (schema_id := schema_id_of(content)) is None else schema_id)
        if schema is not None and content is not None and not more:
            by_schema = schema.shown(content, most, budget, indented=indented)
            if by_schema is not None:
                return by_schema
        return decoded(content, budget, form, most, more=more, indented=indented)

    return {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key, left_out.key),
        "value": shown(record.value, left_out.value),
        "value_bytes": None if record.value is None else len(record.value) + left_out.value,
        "headers": [
            (decoded(name, budget, "text", most).text, decoded(content, budget, "auto", most))
            for name, content in record.headers
        ],
        "more_headers": left_out.headers,
    }


async def message(ask: Ask) -> Page:
    """One record, whole."""
    topic = seen_topic(ask, "topic")
    (partition,) = read_partitions(ask, topic.name, topic.partition_count)[:1]
    offset, form = ask.integer("offset"), ask.choice("format", FORMATS)
    reader = TopicReader(
        ask.node, topic.name, {partition.index: offset}, committed=False, at_once=AT_ONCE_BYTES, budget=ask.budget
    )
    found = await reader.read(1)
    if not found or found[0].record.offset != offset:
        raise ControlError(f"{topic.name}-{partition.index} has no record at offset {offset}", status=404)
    schemas, problem = await schemas_for(ask, found, form)
    row = await ask.budget.run(ask.node, partial(_row, found[0], form, LONGEST, schemas, ask.budget, indented=True))
    title = f"{topic.name}-{partition.index}, offset {offset}"
    values = {"topic": topic.name, "row": row, "form": form, "formats": FORMATS, "problem": problem}
    return Page("message.html", title, values)
