"""Downloads the messages that a page shows, and those after them: as lines of JSON, as CSV, or as Parquet.

What is sent is made piece by piece, and each piece is as bounded as a page. A file that cannot be finished within its
bounds does not end as if it were whole: the connection is broken off, so that the browser says that it has failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial

from aiohttp import web

from broker.console.ask import Ask, Few
from broker.console.filters import Filter, FilterError
from broker.console.formats import FORMATS
from broker.console.messages import known_partitions, positions_of, readers_end
from broker.console.rows import KINDS, Rows, is_parquet_there, writer_of
from broker.console.searches import SEARCHED, Search, Wanted, is_committed, schemas_for, wanted_of
from broker.console.sent import MOST_BYTES, Sent, UnfinishedError, broken_off
from broker.console.topics import seen_topic
from broker.testkit.control.budget import MOST, Budget
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topic_reader import Found
from protocol.records.cut import NOTHING

MOST_RECORDS = 10_000
MOST_SEARCHED = 10 * SEARCHED
MOST_MS = 60_000.0
AT_ONCE = 200
"""Records of a piece."""

INSTALL = "pip install pyarrow"


async def download(ask: Ask, request: web.Request, downloads: Few) -> web.StreamResponse:
    """Send the file. Raises ControlError before anything is sent."""
    topic = seen_topic(ask, "topic")
    is_begun = bool(ask.text("at"))  # by a page, which has said what it does not show
    partitions = await known_partitions(ask, topic.name, topic.partition_count, every=not is_begun)
    kind, form, wanted = ask.choice("as", tuple(KINDS)), ask.choice("format", FORMATS), wanted_of(ask)
    most = ask.integer("most", 1_000)
    if not 1 <= most <= MOST_RECORDS:
        raise ControlError(f"most = {most}: expected 1 to {MOST_RECORDS}", parameter="most")
    if kind == "parquet" and not is_parquet_there():
        raise ControlError(f"Parquet is written by pyarrow, which is not here: {INSTALL}", status=409)
    share = max((most if wanted.is_anything else SEARCHED) // len(partitions), 1)
    before = await positions_of(ask, partitions, share)
    ends = {one.partition: readers_end(ask, one) for one in partitions if one.partition in before}
    with downloads.one(ask.rights.user):
        async with contextlib.aclosing(_pieces(ask, topic.name, before, ends, wanted, most)) as pieces:
            try:
                first = await anext(pieces, None)  # what is wrong with the request is found by now
            except FilterError as error:
                raise ControlError(str(error), parameter="filter") from error
            except UnfinishedError as error:
                raise ControlError(f"this cannot be downloaded: {error}", status=413) from error
            sent = Sent(
                {
                    "Content-Type": KINDS[kind],
                    "Content-Disposition": f'attachment; filename="{topic.name}.{kind}"',
                    "X-Content-Type-Options": "nosniff",
                }
            )

            async def write(data: bytes) -> None:
                if sent.is_full:
                    raise UnfinishedError(f"it has more than {MOST_BYTES} bytes")
                await sent.write(data)

            await sent.answer.prepare(request)
            with broken_off(request, "a download", topic.name):
                async with writer_of(kind, write) as rows:
                    piece = first
                    while piece is not None:
                        await _send(ask, rows, topic.name, form, piece)
                        piece = await anext(pieces, None)
    return sent.answer


async def _send(ask: Ask, rows: Rows, topic: str, form: str, found: tuple[Found, ...]) -> None:
    """Write rows of these records. What may be kept of them is little enough for a budget of their own."""
    schemas, _ = await schemas_for(ask, found, form)
    budget = Budget(MOST)
    await rows.add(await budget.run(ask.node, partial(rows.made, topic, found, form, schemas, budget)))


async def _pieces(
    ask: Ask, topic: str, before: Mapping[int, int], ends: Mapping[int, int], wanted: Wanted, most: int
) -> AsyncGenerator[tuple[Found, ...]]:
    """What is wanted up to the ends, a partition after the other.

    Raises UnfinishedError, FilterError, KafkaError, SpentError.
    """
    clock, positions, searched, left = ask.node.clock.machine, dict(before), 0, most
    until_ms = clock.monotonic_ms() + MOST_MS
    async with Filter(wanted.expression) if wanted.expression else contextlib.nullcontext() as asked:
        while left > 0 and (at := {index: positions[index] for index, end in ends.items() if positions[index] < end}):
            piece = replace(ask, budget=Budget(MOST))
            search = Search(piece, topic, at, wanted, committed=is_committed(ask))
            found = [
                one for one in await search.find(min(left, AT_ONCE), asked) if one.record.offset < ends[one.partition]
            ]
            if search.failed:
                raise UnfinishedError("; ".join(search.failed.values()))
            if search.positions == at or piece.budget.passed_over or any(one.left_out != NOTHING for one in found):
                raise UnfinishedError("a record is larger than what may be read at a time")
            positions |= search.positions
            searched += search.searched
            left -= len(found)
            yield tuple(found)
            if left > 0 and searched > MOST_SEARCHED:
                raise UnfinishedError(f"more than {MOST_SEARCHED} offsets would have to be looked through")
            if clock.monotonic_ms() >= until_ms:
                raise UnfinishedError("it took longer than a minute")
