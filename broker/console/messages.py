"""The records of a topic: from an offset, from a time, by key or by a field of JSON; one record whole; and new ones."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from broker.console.ask import Ask, Page
from broker.console.decoding import FORMATS, LONGEST, Shown, decoded
from broker.console.records import LIMIT, SEARCHED, STARTS, Wanted, in_time, positions_of, read, read_partitions, search
from broker.console.registry import RegistryError, Schemas, schema_id_of
from broker.console.topic import seen_topic
from broker.control.endpoint import ControlError
from broker.control.topic_reader import Found, TopicReader
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

SHOWN_BYTES = 500
"""So much of each key and value is in the list."""

ALIVE_S = 15.0
"""After so long without a record a comment is sent, which shows whether the browser is still there."""

PAUSE_MS = 250.0
"""Between two looks of a browser that follows a topic."""

MOST_AT_ONCE = 100
"""Records that are sent to such a browser at a time; what is more is skipped."""

Render = Callable[[str, Mapping[str, Any]], str]


async def messages(ask: Ask) -> Page:
    topic = seen_topic(ask, "topic")
    partitions = read_partitions(ask, topic.name, topic.partition_count)
    wanted = Wanted(ask.text("key"), ask.text("field"), ask.text("value"))
    form, committed = ask.choice("format", FORMATS), _is_committed(ask)
    share = max((LIMIT if wanted.is_anything else SEARCHED) // len(partitions), 1)
    before = await positions_of(ask, partitions, share)
    if wanted.is_anything:
        found = await read(ask.node, topic.name, before, share, committed=committed)
    else:
        found = await search(ask.node, topic.name, before, wanted, committed=committed)
    schemas, problem = await _schemas(ask, found.records, form)
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
            "rows": await _rows(found.records, form, schemas),
            "problem": problem,
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


def _is_committed(ask: Ask) -> bool:
    return ask.text("isolation") != "uncommitted"


def _text(positions: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in positions.items())


async def _rows(found: Sequence[Found], form: str, schemas: Schemas) -> list[dict[str, Any]]:
    return await asyncio.to_thread(lambda: [_row(one, form, SHOWN_BYTES, schemas) for one in found])


async def _schemas(ask: Ask, found: Sequence[Found], form: str) -> tuple[Schemas, str | None]:
    """The schemas of keys and values, and why there are none, if that is to be said."""
    if ask.registry is None or form != "auto":
        return {}, None
    contents = [content for one in found for content in (one.record.key, one.record.value)]
    try:
        return await ask.registry.schemas_of(contents), None
    except RegistryError as error:
        return {}, str(error)


def _shown(content: bytes | None, form: str, most: int, schemas: Schemas, *, indented: bool) -> Shown:
    schema = schemas.get(-1 if (schema_id := schema_id_of(content)) is None else schema_id)
    by_schema = None if schema is None or content is None else schema.shown(content[:LONGEST], indented=indented)
    if by_schema is None:
        return decoded(content, form, most, indented=indented)
    text = by_schema.text or ""
    return by_schema if len(text) <= most else by_schema._replace(text=text[:most], cut=len(text) - most)


def _row(found: Found, form: str, most: int, schemas: Schemas, *, indented: bool = False) -> dict[str, Any]:
    """Any thread: a value may be large."""
    record = found.record
    return {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _shown(record.key, form, most, schemas, indented=indented),
        "value": _shown(record.value, form, most, schemas, indented=indented),
        "value_bytes": None if record.value is None else len(record.value),
        "headers": [
            (name.decode(errors="replace"), decoded(content, "auto", most)) for name, content in record.headers
        ],
    }


async def message(ask: Ask) -> Page:
    """One record, whole."""
    topic = seen_topic(ask, "topic")
    (partition,) = read_partitions(ask, topic.name, topic.partition_count)[:1]
    offset, form = ask.integer("offset"), ask.choice("format", FORMATS)
    reader = TopicReader(ask.node, topic.name, {partition.index: offset}, committed=False)
    found = await reader.read(1)
    if not found or found[0].record.offset != offset:
        raise ControlError(f"{topic.name}-{partition.index} has no record at offset {offset}", status=404)
    schemas, problem = await _schemas(ask, found, form)
    row = await asyncio.to_thread(partial(_row, found[0], form, LONGEST, schemas, indented=True))
    title = f"{topic.name}-{partition.index}, offset {offset}"
    values = {"topic": topic.name, "row": row, "form": form, "formats": FORMATS, "problem": problem}
    return Page("message.html", title, values)


async def tail(ask: Ask, request: web.Request, render: Render) -> web.StreamResponse:
    """Send what is appended from now on, as server-sent events with rows of the table."""
    topic = seen_topic(ask, "topic")
    partitions = read_partitions(ask, topic.name, topic.partition_count)
    form, committed = ask.choice("format", FORMATS), _is_committed(ask)
    positions = {one.index: one.end_offset_for(int(committed)) for one in partitions}
    reader = TopicReader(ask.node, topic.name, positions, committed=committed)
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await answer.prepare(request)
    try:
        await _follow(ask, topic.name, reader, answer, render, form)
    except (ConnectionResetError, KafkaError) as error:  # the browser is gone, or the topic
        logger.debug("a browser follows a topic no longer", topic=topic.name, reason=str(error))
    return answer


async def _follow(
    ask: Ask, topic: str, reader: TopicReader, answer: web.StreamResponse, render: Render, form: str
) -> None:
    """Send records until the connection or the topic ends. Raises ConnectionResetError, KafkaError."""
    committed = _is_committed(ask)
    while True:
        try:
            async with asyncio.timeout(ALIVE_S):
                await reader.wait()
        except TimeoutError:
            await answer.write(b": still here\n\n")  # fails if the browser is gone
            continue
        found = await reader.read(MOST_AT_ONCE)
        if found:
            schemas, _ = await _schemas(ask, found, form)
            values = {"topic": topic, "rows": await _rows(in_time(found)[::-1], form, schemas)}
            await _send(answer, "records", await asyncio.to_thread(render, "message_rows.html", values))
        skipped = _skip(ask, topic, reader, committed=committed) if len(found) >= MOST_AT_ONCE else 0
        if skipped:
            await _send(answer, "skipped", str(skipped))
        await ask.node.clock.machine.sleep(PAUSE_MS)


def _skip(ask: Ask, topic: str, reader: TopicReader, *, committed: bool) -> int:
    """Go on at the end if there is too much to show; give how many records are left out."""
    ends = {
        index: partition.end_offset_for(int(committed))
        for index in reader.positions
        if (partition := ask.node.replicas.get(topic, index)) is not None
    }
    behind = sum(max(end - reader.positions[index], 0) for index, end in ends.items())
    if behind <= MOST_AT_ONCE:
        return 0
    reader.positions |= ends
    return behind


async def _send(answer: web.StreamResponse, event: str, text: str) -> None:
    lines = "".join(f"data: {line}\n" for line in re.split(r"\r\n|\n|\r", text))
    await answer.write(f"event: {event}\n{lines}\n".encode())
