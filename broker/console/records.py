"""Finds and reads the records that a page of messages shows: by a seek, and never more than a bounded number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from broker.console.ask import Ask
from broker.console.decoding import as_json, field_of, same_as_text
from broker.control.budget import JSON_WORK, Budget
from broker.control.endpoint import ControlError
from broker.control.topic_reader import Found, TopicReader
from broker.replication.partition import Partition, Role
from protocol.records.build import Record
from storage.log import time_lookup

LIMIT = 50
"""Records on a page."""

SEARCHED = 20_000
"""So many offsets are looked through for a page, or some more; the search goes on where the next page begins."""

SEARCH_MS = 5_000.0
COSTLY = "These records are large: looking at more would cost more than one page may."
LATE = "The search stopped after five seconds."

AT_ONCE_BYTES = 64 << 10
MOST_PARTITIONS = 50
"""A page reads that many partitions at most."""

STARTS = ("newest", "oldest", "offset", "time")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a record must have; an empty text stands for anything."""

    key: str
    field: str
    value: str

    @property
    def is_anything(self) -> bool:
        return not (self.key or self.field or self.value)

    def matches(self, budget: Budget, record: Record) -> bool:
        """The key is the same; a field of the JSON value is; without a field, the value has the text in it."""
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

    `stopped` says why no more were, where there may be more.
    """

    records: Sequence[Found]
    positions: Mapping[int, int]
    searched: int
    stopped: str = ""


def wall_ms_of(text: str) -> int:
    """The time that somebody typed. Raises ControlError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ControlError(
            f"time = {text!r}: expected a time in ISO 8601, as 2026-11-27T12:00:00Z", parameter="time"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def read_partitions(ask: Ask, topic: str, count: int) -> list[Partition]:
    """The partitions that the page reads: the one that is asked for, or the first that this node leads."""
    indexes = range(count)
    if ask.text("partition"):
        index = ask.integer("partition")
        if index not in indexes:
            raise ControlError(f"partition = {index}: expected 0 to {count - 1}", parameter="partition")
        indexes = range(index, index + 1)
    found = [partition for index in indexes if (partition := ask.node.replicas.get(topic, index)) is not None]
    led = [partition for partition in found if partition.role is Role.LEADER]
    if not led:
        raise ControlError("this node leads none of these partitions: look at the console of their leader", status=409)
    return led[:MOST_PARTITIONS]


async def positions_of(ask: Ask, partitions: Sequence[Partition], share: int) -> dict[int, int]:
    """The offset from which each partition is read: `share` records before its end, or as the request says."""
    given = ask.text("at")
    if given:
        return _parsed(given, {one.index for one in partitions})
    start = ask.choice("from", STARTS)
    if start == "offset":
        return {one.index: min(ask.integer("offset"), one.high_watermark) for one in partitions}
    if start == "time":
        wall_ms = wall_ms_of(ask.text("time"))
        return {one.index: await _at_time(one, wall_ms) for one in partitions}
    if start == "oldest":
        return {one.index: one.log_start_offset for one in partitions}
    return {one.index: max(one.log_start_offset, one.high_watermark - share) for one in partitions}


def _parsed(text: str, known: set[int]) -> dict[int, int]:
    """Offsets by partition, as `0:12,1:7`. Raises ControlError."""
    try:
        found = {int(index): int(offset) for index, offset in (one.split(":") for one in text.split(","))}
    except ValueError:
        found = {-1: -1}
    if not found.keys() <= known or not all(0 <= offset < 1 << 63 for offset in found.values()):
        raise ControlError(f"at = {text!r}: expected offsets by partition, as 0:12,1:7", parameter="at")
    return found


async def _at_time(partition: Partition, wall_ms: int) -> int:
    found = await time_lookup.first_at_or_after(partition.log, wall_ms)
    return partition.high_watermark if found is None else min(found.offset, partition.high_watermark)


async def read(ask: Ask, topic: str, positions: Mapping[int, int], share: int, *, committed: bool) -> Read:
    """Read `share` records of each partition, within the budget."""
    found: list[Found] = []
    after = dict(positions)
    for index, offset in positions.items():
        reader = TopicReader(
            ask.node, topic, {index: offset}, committed=committed, at_once=AT_ONCE_BYTES, budget=ask.budget
        )
        found += await reader.read(share)
        after |= reader.positions
    return Read(in_time(found), after, len(found), COSTLY if ask.budget.is_spent else "")


async def search(ask: Ask, topic: str, positions: Mapping[int, int], wanted: Wanted, *, committed: bool) -> Read:
    """Look through the partitions in turn, until enough was found, looked at, or spent."""
    found: list[Found] = []
    after, searched, budget, clock = dict(positions), 0, ask.budget, ask.node.clock.machine
    until_ms, is_late = clock.monotonic_ms() + SEARCH_MS, False
    for index in positions:
        reader = TopicReader(
            ask.node,
            topic,
            {index: after[index]},
            committed=committed,
            at_once=AT_ONCE_BYTES,
            keep=partial(wanted.matches, budget),
            budget=budget,
        )
        while len(found) < LIMIT and searched < SEARCHED and not (budget.is_spent or is_late):
            part = await reader.read_some(index, LIMIT - len(found))
            searched += reader.positions[index] - after[index]
            after[index] = reader.positions[index]
            is_late = clock.monotonic_ms() >= until_ms
            if part is None:
                break
            found += part
    return Read(in_time(found), after, searched, COSTLY if budget.is_spent else LATE if is_late else "")


def in_time(found: Sequence[Found]) -> list[Found]:
    """The newest first."""
    return sorted(found, key=lambda one: (one.record.timestamp, one.partition, one.record.offset), reverse=True)
