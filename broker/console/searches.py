"""Looks records up for the pages about messages: by key, by a field of JSON, by an expression (`filters.py`).

Never more than a bounded number is looked through, and for a bounded time; where that ends, the next page goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from broker.console.ask import Ask
from broker.console.filters import Filter, lines
from broker.console.formats import as_json, field_of, same_as_text
from broker.console.registry import RegistryError, Schemas, framed_parts
from broker.testkit.control.budget import JSON_WORK, Budget
from broker.testkit.control.topic_reader import Found, TopicReader
from protocol.errors import KafkaError
from protocol.records.build import Record

LIMIT = 50
"""Records on a page."""

SEARCHED = 20_000
"""So many offsets are looked through for a page, or some more; the search goes on where the next page begins."""

SEARCH_MS = 5_000.0
COSTLY = "These records are large: looking at more would cost more than one page may."
LATE = "The search stopped after five seconds."


FILTERED_AT_ONCE = 200
"""Records that an expression is asked for at a time."""

RecordReader = partial(TopicReader, at_once=64 << 10, anywhere=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a record must have; an empty text stands for anything."""

    key: str
    field: str
    value: str
    expression: str = ""

    @property
    def is_anything(self) -> bool:
        return not any((self.key, self.field, self.value, self.expression))

    def matches(self, budget: Budget, record: Record) -> bool:
        """All but the expression: the key is the same; a field of the JSON value is, or the value has the text."""
        if self.key and (record.key is None or record.key.decode(errors="replace") != self.key):
            return False
        if self.field:
            budget.spend(JSON_WORK * len(record.value or b""))
            found = field_of(as_json(record.value), self.field)
            return bool(found) and (not self.value or same_as_text(found[0], self.value))
        return not self.value or (record.value is not None and self.value.encode(errors="replace") in record.value)


@dataclass(frozen=True, slots=True)
class Read:
    """Records, and the next offset of each partition; `searched` is how many offsets were looked at.

    `stopped` says why no more were, where there may be more; `refused` for how many records the expression has no
    answer, and `why` what was wrong first. `failed` says, by partition, why it was not read on.
    """

    records: Sequence[Found]
    positions: Mapping[int, int]
    searched: int
    stopped: str = ""
    refused: int = 0
    why: str = ""
    failed: Mapping[int, str] = field(default_factory=dict)


def wanted_of(ask: Ask) -> Wanted:
    return Wanted(ask.text("key"), ask.text("field"), ask.text("value"), ask.text("filter"))


def is_committed(ask: Ask) -> bool:
    return ask.text("isolation") != "uncommitted"


async def read(ask: Ask, topic: str, positions: Mapping[int, int], share: int, *, committed: bool) -> Read:
    """Read `share` records of each partition, within the budget."""
    found: list[Found] = []
    after, failed = dict(positions), dict[int, str]()
    for index, offset in positions.items():
        reader = RecordReader(ask.node, topic, {index: offset}, committed=committed, budget=ask.budget)
        try:
            found += await reader.read(share)
        except KafkaError as error:
            failed[index] = str(error)
        after |= reader.positions
    return Read(in_time(found), after, len(found), COSTLY if ask.budget.is_spent else "", failed=failed)


class Search:
    """Looks through the partitions in turn, from `positions` on.

    Attributes:
        positions: the next offset of each partition.
        searched: how many offsets were looked at.
        failed: why a partition was not read on.
        is_late: the time is over.
    """

    def __init__(self, ask: Ask, topic: str, positions: Mapping[int, int], wanted: Wanted, *, committed: bool) -> None:
        self._ask = ask
        self._topic = topic
        self._wanted = wanted
        self._committed = committed
        self._clock = ask.node.clock.machine
        self._until_ms = self._clock.monotonic_ms() + SEARCH_MS
        self.positions = dict(positions)
        self.searched = 0
        self.failed: dict[int, str] = {}

    @property
    def is_late(self) -> bool:
        return self._clock.monotonic_ms() >= self._until_ms

    async def find(self, most: int, asked: Filter | None) -> list[Found]:
        """So many records that are wanted, or as many as were found within what a page may cost."""
        found: list[Found] = []
        budget = self._ask.budget
        for index in self.positions:
            reader = RecordReader(
                self._ask.node,
                self._topic,
                {index: self.positions[index]},
                committed=self._committed,
                keep=partial(self._wanted.matches, budget),
                budget=budget,
            )
            while len(found) < most and self.searched < SEARCHED and not (budget.is_spent or self.is_late):
                before = reader.positions[index]
                try:
                    part = await reader.read_some(index, most - len(found) if asked is None else FILTERED_AT_ONCE)
                except KafkaError as error:
                    self.failed[index] = str(error)
                    break
                if part is not None and asked is not None:
                    part, reader.positions[index] = await self._passing(
                        asked, part, most - len(found), reader.positions[index]
                    )
                self.searched += reader.positions[index] - before
                self.positions[index] = reader.positions[index]
                if part is None:
                    break
                found += part
        return found

    async def _passing(self, asked: Filter, part: list[Found], most: int, after: int) -> tuple[list[Found], int]:
        """Those that pass the expression, and where to go on. What is left out no longer counts as kept."""
        ask = self._ask
        schemas, _ = await schemas_for(ask, part, "auto")
        told = await ask.budget.run(ask.node, partial(lines, tuple(part), schemas, ask.budget))
        seconds = max(self._until_ms - self._clock.monotonic_ms(), 0) / 1000
        verdicts = await asked.passing(told, seconds)
        passing = [one for one, passes in zip(part, verdicts, strict=False) if passes][:most]
        if len(passing) == most:
            after = passing[-1].record.offset + 1
        elif len(verdicts) < len(part):
            after = part[len(verdicts)].record.offset
        ask.budget.keep(sum(one.size for one in passing) - sum(one.size for one in part))
        return passing, after


async def search(ask: Ask, topic: str, positions: Mapping[int, int], wanted: Wanted, *, committed: bool) -> Read:
    """Look through the partitions until enough was found, looked at, or spent. Raises FilterError."""
    searching = Search(ask, topic, positions, wanted, committed=committed)
    refused, why = 0, ""
    if wanted.expression:
        async with Filter(wanted.expression) as asked:
            found = await searching.find(LIMIT, asked)
            refused, why = asked.refused, asked.why
    else:
        found = await searching.find(LIMIT, None)
    stopped = COSTLY if ask.budget.is_spent else LATE if searching.is_late else ""
    return Read(in_time(found), searching.positions, searching.searched, stopped, refused, why, searching.failed)


def in_time(found: Sequence[Found]) -> list[Found]:
    """The newest first."""
    return sorted(found, key=lambda one: (one.record.timestamp, one.partition, one.record.offset), reverse=True)


async def schemas_for(ask: Ask, found: Sequence[Found], form: str) -> tuple[Schemas, str | None]:
    """The schemas of keys and values, and why there are none, if that is to be said."""
    if ask.registry is None or form != "auto":
        return {}, None
    names = [part.schema for one in found for part in framed_parts(one.record) if part is not None]
    try:
        return await ask.registry.schemas_of(names), None
    except RegistryError as error:
        return {}, str(error)
