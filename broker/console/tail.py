"""A browser that follows a topic: it is sent what is appended, as long as its user may read it.

Session and right are looked at at each turn, and once more before records are sent. A tail is bounded in time and
bytes, and there are only so many: a browser that wants more begins a new one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from broker.console.ask import MOST, Ask, Few
from broker.console.filters import Filter, FilterError, lines
from broker.console.formats import FORMATS
from broker.console.messages import known_partitions, most_in_list, readers_end, rows_of
from broker.console.searches import RecordReader, in_time, is_committed, schemas_for, wanted_of
from broker.console.sent import Sent, broken_off
from broker.console.topics import seen_topic
from broker.testkit.control.budget import Budget, SpentError
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topic_reader import Found, TopicReader
from broker.testkit.inspection.partitions import read_partitions
from protocol.records.build import Record

MOST_TAILS = 32
MOST_OF_ONE_USER = 8
MOST_FILTERED, MOST_FILTERED_OF_ONE_USER = 4, 2
"""Tails with an expression: each has a process of its own."""

ALIVE_S = 15.0
"""After so long without a record the session is looked at, and a comment sent, which fails without a browser."""

FILTER_S = 2.0
"""For the expression, in a turn; records that it was not asked for then are skipped."""

PAUSE_MS = 250.0
"""Between two looks for new records."""

MOST_AT_ONCE = 100
"""Records that are sent at a time; what is more is skipped."""

LONGEST_MS = 3_600_000.0
Render = Callable[[str, Mapping[str, Any], Budget], str]
AskAgain = Callable[[], Ask | None]
"""The same request as of now; None if its session is over."""


async def tail(again: AskAgain, request: web.Request, render: Render, filtered: Few) -> web.StreamResponse:
    """Send what is appended from now on and wanted, as server-sent events with rows of the table."""
    ask = _allowed(again)
    topic = ask.name("topic")
    partitions = await known_partitions(ask, topic, seen_topic(ask, "topic").partition_count)
    ask.choice("format", FORMATS)
    committed = is_committed(ask)
    positions = {one.partition: readers_end(ask, one) for one in partitions}
    wanted = wanted_of(ask)

    def keep(record: Record) -> bool:
        return wanted.matches(reader.budget, record)

    reader = RecordReader(ask.node, topic, positions, committed=committed, keep=keep)
    await reader.leave_out_what_is_refused()
    sent = Sent({"Content-Type": "text/event-stream"})
    await sent.answer.prepare(request)
    tail = _Tail(again, sent, reader, render)
    with broken_off(request, "a browser's following", topic):
        try:
            if wanted.expression:
                with filtered.one(ask.rights.user):
                    async with Filter(wanted.expression) as tail.asked:
                        await tail.follow()
            else:
                await tail.follow()
        except (ControlError, FilterError) as error:  # it is over, and why
            await tail.send("over", str(error))
    return sent.answer


def _allowed(again: AskAgain) -> Ask:
    """The request, whose user may read the topic. Raises ControlError."""
    ask = again()
    if ask is None:
        raise ControlError("the session is over: log in again", status=401)
    seen_topic(ask, "topic")
    return ask


class _Tail:
    def __init__(self, again: AskAgain, sent: Sent, reader: TopicReader, render: Render) -> None:
        self._again = again
        self._sent = sent
        self._reader = reader
        self._render = render
        self.asked: Filter | None = None

    async def follow(self) -> None:
        """Send records until it is over.

        Raises ControlError, FilterError, ConnectionResetError, TimeoutError, KafkaError.
        """
        clock = _allowed(self._again).node.clock.machine
        until_ms = clock.monotonic_ms() + LONGEST_MS
        while clock.monotonic_ms() < until_ms and not self._sent.is_full:
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._reader.wait()
            except TimeoutError:
                _allowed(self._again)
                await self._sent.write(b": still here\n\n")
                continue
            await self._turn(replace(_allowed(self._again), budget=Budget(self._reader.budget.most)))
            await clock.sleep(PAUSE_MS)
        raise ControlError("followed for long enough: follow again to go on")

    async def _turn(self, ask: Ask) -> None:
        """Send what is new."""
        budget = self._reader.budget = ask.budget
        budget.most = most_in_list(ask) if wanted_of(ask).is_anything else MOST
        form = ask.choice("format", FORMATS)
        read = await self._reader.read(MOST_AT_ONCE)
        found, skipped = (read, 0) if self.asked is None else await self._passing(self.asked, ask, read)
        html = ""
        if found:
            schemas, _ = await schemas_for(ask, found, form)
            try:
                values = {"topic": ask.name("topic"), "rows": await rows_of(ask, in_time(found)[::-1], form, schemas)}
                html = await budget.run(ask.node, lambda: self._render("message_rows.html", values, budget))
            except SpentError:
                skipped += len(found)
        _allowed(self._again)  # much may have happened meanwhile
        if html:
            await self.send("records", html)
        skipped += await self._skip(ask) if len(read) >= MOST_AT_ONCE or budget.is_spent else 0
        if skipped:
            await self.send("skipped", str(skipped))

    async def _passing(self, asked: Filter, ask: Ask, found: Sequence[Found]) -> tuple[list[Found], int]:
        """Those that pass the expression, and how many it was not asked for. Raises FilterError."""
        if not found:
            return [], 0
        schemas, _ = await schemas_for(ask, found, "auto")
        try:
            told = await ask.budget.run(ask.node, partial(lines, tuple(found), schemas, ask.budget))
        except SpentError:
            return [], len(found)
        verdicts = await asked.passing(told, FILTER_S)
        return [one for one, passes in zip(found, verdicts, strict=False) if passes], len(found) - len(verdicts)

    async def _skip(self, ask: Ask) -> int:
        """Go on at the end if there is too much to show; give how many records are left out."""
        positions, topic = self._reader.positions, ask.name("topic")
        seen = await read_partitions(ask.node, [(topic, index) for index in positions], patience_ms=0)
        ends = {one.partition: readers_end(ask, one) for one in seen.values() if one.is_known}
        behind = sum(max(end - positions[index], 0) for index, end in ends.items())
        if behind <= MOST_AT_ONCE and not ask.budget.is_spent:
            return 0
        positions |= ends
        return behind

    async def send(self, event: str, text: str) -> None:
        """Send an event. Raises ConnectionResetError, TimeoutError."""
        await self._sent.write(event_of(event, text))


def event_of(event: str, text: str) -> bytes:
    """A server-sent event."""
    lines = "".join(f"data: {line}\n" for line in re.split(r"\r\n|\n|\r", text))
    return f"event: {event}\n{lines}\n".encode()
