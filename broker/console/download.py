"""Downloads the messages that a page shows, and those after them: as lines of JSON, as CSV, or as Parquet.

What is sent is made piece by piece, and each piece is as bounded as a page. A file that cannot be finished within its
bounds does not end as if it were whole: the connection is broken off, so that the browser says that it has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog
from aiohttp import web

from broker.console.ask import Ask, Few
from broker.console.filters import Filter, FilterError
from broker.console.formats import FORMATS
from broker.console.messages import positions_of, read_partitions
from broker.console.rows import KINDS, Rows, writer_of
from broker.console.searches import SEARCHED, Search, Wanted, is_committed, schemas_for, wanted_of
from broker.console.topics import seen_topic
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topic_reader import MOST, Budget, Found
from protocol.errors import KafkaError
from protocol.records.cut import NOTHING

logger = structlog.get_logger(__name__)

MOST_RECORDS = 10_000
MOST_SEARCHED = 10 * SEARCHED
MOST_BYTES = 64 << 20
MOST_MS = 60_000.0
AT_ONCE = 200
"""Records of a piece."""

WRITE_S = 30.0
"""How long a browser may take nothing of what is sent."""

INSTALL = "pip install pyarrow"


class UnfinishedError(Exception):
    """The file cannot be finished; the text says why."""


class Piece(NamedTuple):
    """Records, and the request with the budget that is left of what they may cost."""

    ask: Ask
    found: tuple[Found, ...]


def is_parquet_there() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


async def download(ask: Ask, request: web.Request, downloads: Few) -> web.StreamResponse:
    """Send the file. Raises ControlError before anything is sent."""
    topic = seen_topic(ask, "topic")
    partitions = read_partitions(ask, topic.name, topic.partition_count)
    kind, form, wanted = ask.choice("as", tuple(KINDS)), ask.choice("format", FORMATS), wanted_of(ask)
    most = ask.integer("most", 1_000)
    if not 1 <= most <= MOST_RECORDS:
        raise ControlError(f"most = {most}: expected 1 to {MOST_RECORDS}", parameter="most")
    if kind == "parquet" and not is_parquet_there():
        raise ControlError(f"Parquet is written by pyarrow, which is not here: {INSTALL}", status=409)
    share = max((most if wanted.is_anything else SEARCHED) // len(partitions), 1)
    before = await positions_of(ask, partitions, share)
    ends = {one.index: one.end_offset_for(int(is_committed(ask))) for one in partitions if one.index in before}
    with downloads.one(ask.rights.user):
        async with contextlib.aclosing(_pieces(ask, topic.name, before, ends, wanted, most)) as pieces:
            try:
                first = await anext(pieces, None)  # what is wrong with the request is found by now
            except FilterError as error:
                raise ControlError(str(error), parameter="filter") from error
            except UnfinishedError as error:
                raise ControlError(f"this cannot be downloaded: {error}", status=413) from error
            answer = web.StreamResponse(
                headers={
                    "Content-Type": KINDS[kind],
                    "Content-Disposition": f'attachment; filename="{topic.name}.{kind}"',
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                }
            )
            await answer.prepare(request)
            try:
                async with writer_of(kind, _Sent(answer).write) as rows:
                    await _send(rows, topic.name, form, first, pieces)
            except (UnfinishedError, FilterError, KafkaError, OSError, TimeoutError) as error:
                logger.info("a download was broken off", topic=topic.name, reason=str(error) or type(error).__name__)
                if request.transport is not None:
                    request.transport.abort()
    return answer


async def _send(rows: Rows, topic: str, form: str, first: Piece | None, rest: AsyncIterator[Piece]) -> None:
    piece = first
    while piece is not None:
        ask, found = piece
        schemas, _ = await schemas_for(ask, found, form)
        await rows.add(await ask.budget.run(ask.node, partial(rows.made, topic, found, form, schemas, ask.budget)))
        piece = await anext(rest, None)


class _Sent:
    """Sends bytes, so many at most, to a browser that takes them."""

    def __init__(self, answer: web.StreamResponse) -> None:
        self._answer = answer
        self._left = MOST_BYTES

    async def write(self, data: bytes) -> None:
        """Raises UnfinishedError, ConnectionResetError, TimeoutError."""
        self._left -= len(data)
        if self._left < 0:
            raise UnfinishedError(f"it has more than {MOST_BYTES} bytes")
        async with asyncio.timeout(WRITE_S):
            await self._answer.write(data)


async def _pieces(
    ask: Ask, topic: str, before: Mapping[int, int], ends: Mapping[int, int], wanted: Wanted, most: int
) -> AsyncGenerator[Piece]:
    """What is wanted up to the ends, a partition after the other. Raises UnfinishedError, FilterError, KafkaError."""
    clock, positions, searched, left = ask.node.clock.machine, dict(before), 0, most
    until_ms = clock.monotonic_ms() + MOST_MS
    async with Filter(wanted.expression) if wanted.expression else contextlib.nullcontext() as asked:
        while left > 0 and (at := {index: positions[index] for index, end in ends.items() if positions[index] < end}):
            piece = replace(ask, budget=Budget(MOST))
            search = Search(piece, topic, at, wanted, committed=is_committed(ask))
            found = [
                one for one in await search.find(min(left, AT_ONCE), asked) if one.record.offset < ends[one.partition]
            ]
            if search.positions == at or piece.budget.passed_over or any(one.left_out != NOTHING for one in found):
                raise UnfinishedError("a record is larger than what may be read at a time")
            positions |= search.positions
            searched += search.searched
            left -= len(found)
            yield Piece(piece, tuple(found))
            if left > 0 and searched > MOST_SEARCHED:
                raise UnfinishedError(f"more than {MOST_SEARCHED} offsets would have to be looked through")
            if clock.monotonic_ms() >= until_ms:
                raise UnfinishedError("it took longer than a minute")
