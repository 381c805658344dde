"""Finds what went wrong in a history: acknowledged records lost, doubled, reordered, or read though aborted.

A history is a list of events, as `History.events()` gives it and as JSON has it, in the order in which they happened:

| type | fields |
| --- | --- |
| began | ends: by topic, by partition (a text), the offset at which the history begins; 0 for what is not there |
| sent | id, client, connection, topic, partition, producer_id, epoch, sequence, records: digest and timestamp of each |
| acked | id, topic, partition, offset: that of the first record |
| read | topic, partition, from, to, committed, records: each with offset and digest |
| restored | a snapshot was restored: what was before does not count any more |
| log | topic, partition, start, end, compacted, records, markers: what is there at the end |

A batch is sent once for each attempt; an attempt has its own id. A digest stands for key, value and headers. A record
of a log has offset, digest, producer_id, epoch, sequence and transactional; a marker has offset, producer_id and
committed. `producer_id` is -1 for none. `show` may be there as text for messages.

What is called so here:
- lost: it was acknowledged, retention has not removed it, and it is not there, or another record is; or it was left out
  of what a consumer was sent. What compaction removes is not lost.
- doubled: a batch of an idempotent producer is at two places; or a record of any other producer is in the log more
  often than the producer sent it, not counting what it sent again on another connection.
- reordered: of two batches that a producer sent to a partition, the later one has the smaller offset.
- aborted: a read_committed consumer was sent a record of a transaction that was aborted, or was never committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Place = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An anomaly: `kind` is lost, doubled, reordered or aborted; `text` says it in a sentence."""

    kind: str
    topic: str
    partition: int
    offset: int
    text: str


def find_problems(events: Iterable[Event]) -> list[Problem]:
    """All anomalies of a history."""
    history = _History()
    for event in events:
        history.add(event)
    found = [*history.lost(), *history.left_out(), *history.doubled(), *history.reordered(), *history.aborted()]
    return sorted(set(found))


@dataclass(slots=True)
class _Batch:
    """An attempt to write a batch, and where it was acknowledged; None if it was not."""

    event: Event
    offset: int | None = None

    @property
    def place(self) -> Place:
        return self.event["topic"], self.event["partition"]

    @property
    def is_idempotent(self) -> bool:
        return bool(self.event["producer_id"] != NO_PRODUCER)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What another attempt for the same batch has in common with this one."""
        if self.is_idempotent:
            return (*self.place, self.event["producer_id"], self.event["epoch"], self.event["sequence"])
        content = tuple((one["digest"], one.get("timestamp")) for one in self.event["records"])
        return (*self.place, self.event["client"], content)


class _History:
    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._sent: dict[str, _Batch] = {}
        self._reads: list[Event] = []
        self._logs: dict[Place, _Log] = {}

    def add(self, event: Event) -> None:
        match event["type"]:
            case "sent":
                self._sent[event["id"]] = _Batch(event)
            case "acked" if event["id"] in self._sent:
                self._sent[event["id"]].offset = event["offset"]
            case "read":
                self._reads.append(event)
            case "restored":
                self._forget()
            case "log":
                self._logs[event["topic"], event["partition"]] = _Log(event)

    # -- lost

    def lost(self) -> Iterator[Problem]:
        for batch in self._acknowledged():
            log = self._logs.get(batch.place)
            for at, record in enumerate(batch.event["records"] if log is not None else ()):
                assert log is not None and batch.offset is not None
                offset = batch.offset + at
                reason = log.why_lost(offset, record["digest"])
                if reason is not None:
                    text = f"{_shown(record)}, acknowledged at offset {offset} of {_name(batch.place)}, {reason}"
                    yield Problem("lost", *batch.place, offset, text)

    def left_out(self) -> Iterator[Problem]:
        """Acknowledged records that lie within what a consumer was sent, and were not sent."""
        for read in self._reads:
            place = read["topic"], read["partition"]
            log = self._logs.get(place)
            if log is None or log.event["compacted"]:
                continue
            sent = {record["offset"] for record in read["records"]}
            for offset in range(max(read["from"], log.event["start"]), read["to"]):
                record = log.records.get(offset)
                if record is None or offset in sent or (read["committed"] and not log.is_committed(offset)):
                    continue
                text = (
                    f"{_shown(record)} at offset {offset} of {_name(place)} was left out of what a consumer was sent "
                    f"from offset {read['from']} to {read['to']}"
                )
                yield Problem("lost", *place, offset, text)

    # -- doubled

    def doubled(self) -> Iterator[Problem]:
        for log in self._logs.values():
            yield from log.doubled_sequences()
        offsets: dict[tuple[Any, ...], set[int]] = {}
        for batch in self._acknowledged():
            if batch.is_idempotent and batch.offset is not None:
                offsets.setdefault(batch.identity, set()).add(batch.offset)
        for identity, places in offsets.items():
            if len(places) > 1:
                topic, partition, producer_id, _, sequence = identity
                at = ", ".join(map(str, sorted(places)))
                text = (
                    f"the batch of producer {producer_id} with sequence {sequence} was acknowledged at several offsets "
                    f"of {_name((topic, partition))}: {at}"
                )
                yield Problem("doubled", topic, partition, max(places), text)
        for place, log in self._logs.items():
            yield from log.doubled_digests(self._meant(place))

    def _meant(self, place: Place) -> Counter[str]:
        """How often producers without sequence numbers meant each digest to be written.

        What comes again on another connection with the same time is the same, sent again.
        """
        by_connection: dict[tuple[str, str, Any], Counter[str]] = {}
        for batch in self._sent.values():
            if batch.place == place and not batch.is_idempotent:
                for record in batch.event["records"]:
                    key = batch.event["client"], record["digest"], record.get("timestamp")
                    by_connection.setdefault(key, Counter())[batch.event["connection"]] += 1
        meant: Counter[str] = Counter()
        for (_, digest, _), counts in by_connection.items():
            meant[digest] += max(counts.values())
        return meant

    # -- reordered

    def reordered(self) -> Iterator[Problem]:
        streams: dict[tuple[Any, ...], list[_Batch]] = {}
        attempts = Counter((batch.event["connection"], batch.identity) for batch in self._sent.values())
        offsets = self._first_offsets()
        known: set[tuple[Any, ...]] = set()
        for batch in self._sent.values():
            # What is sent twice on one connection may be two batches that look the same.
            ambiguous = not batch.is_idempotent and attempts[batch.event["connection"], batch.identity] > 1
            if batch.identity in known or ambiguous or batch.identity not in offsets:
                continue
            known.add(batch.identity)
            streams.setdefault((*batch.place, *_producer(batch.event)), []).append(batch)
        for batches in streams.values():
            if batches[0].is_idempotent:
                batches.sort(key=lambda batch: batch.event["sequence"])
            yield from _out_of_order(batches, offsets)

    def _first_offsets(self) -> dict[tuple[Any, ...], int]:
        found: dict[tuple[Any, ...], int] = {}
        for batch in self._acknowledged():
            assert batch.offset is not None
            found[batch.identity] = min(batch.offset, found.get(batch.identity, batch.offset))
        return found

    # -- aborted

    def aborted(self) -> Iterator[Problem]:
        for read in self._reads:
            place = read["topic"], read["partition"]
            log = self._logs.get(place)
            for record in read["records"] if read["committed"] and log is not None else ():
                assert log is not None
                outcome = log.outcome(record["offset"])
                if outcome in ("aborted", "open"):
                    what = "was aborted" if outcome == "aborted" else "was never committed"
                    text = (
                        f"{_shown(record)} at offset {record['offset']} of {_name(place)} was sent to a read_committed "
                        f"consumer, and its transaction {what}"
                    )
                    yield Problem("aborted", *place, record["offset"], text)

    def _acknowledged(self) -> Iterator[_Batch]:
        return (batch for batch in self._sent.values() if batch.offset is not None and batch.offset >= 0)


def _producer(event: Event) -> tuple[Any, ...]:
    """Whose order counts: a producer id in one epoch, or else a connection."""
    if event["producer_id"] != NO_PRODUCER:
        return event["producer_id"], event["epoch"]
    return event["client"], event["connection"]


def _out_of_order(batches: Sequence[_Batch], offsets: Mapping[tuple[Any, ...], int]) -> Iterator[Problem]:
    highest = -1
    before: _Batch | None = None
    for batch in batches:
        offset = offsets[batch.identity]
        if offset < highest and before is not None:
            text = (
                f"{_shown(batch.event['records'][0])} was sent after {_shown(before.event['records'][0])}, and is "
                f"before it in {_name(batch.place)}: at offset {offset}, the other at {highest}"
            )
            yield Problem("reordered", *batch.place, offset, text)
        else:
            highest, before = offset, batch


class _Log:
    """What is in a partition at the end."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.place: Place = (event["topic"], event["partition"])
        self.records: dict[int, Any] = {record["offset"]: record for record in event["records"]}
        self._markers: dict[int, list[tuple[int, bool]]] = {}
        for marker in sorted(event["markers"], key=lambda one: one["offset"]):
            self._markers.setdefault(marker["producer_id"], []).append((marker["offset"], marker["committed"]))

    def why_lost(self, offset: int, digest: str) -> str | None:
        if offset < self.event["start"]:
            return None  # retention, or a deletion of records
        record = self.records.get(offset)
        if record is None:
            if offset >= self.event["end"]:
                return f"is gone: the log ends at {self.event['end']}"
            return None if self.event["compacted"] else "is gone"
        return None if record["digest"] == digest else f"is gone: {_shown(record)} is there"

    def outcome(self, offset: int) -> str:
        """Of the transaction of a record: committed, aborted or open; `none` if it is in none, or unknown."""
        record = self.records.get(offset)
        if record is None or not record["transactional"]:
            return "none"
        for at, committed in self._markers.get(record["producer_id"], ()):
            if at > offset:
                return "committed" if committed else "aborted"
        return "open"

    def is_committed(self, offset: int) -> bool:
        return self.outcome(offset) in ("committed", "none")

    def doubled_sequences(self) -> Iterator[Problem]:
        seen: dict[tuple[int, int, int], int] = {}
        for offset, record in sorted(self.records.items()):
            if record["producer_id"] == NO_PRODUCER or record["sequence"] < 0:
                continue
            key = record["producer_id"], record["epoch"], record["sequence"]
            first = seen.setdefault(key, offset)
            if first != offset:
                text = (
                    f"{_shown(record)} of producer {record['producer_id']}, sequence {record['sequence']}, is in "
                    f"{_name(self.place)} twice: at {first} and {offset}"
                )
                yield Problem("doubled", *self.place, offset, text)

    def doubled_digests(self, meant: Mapping[str, int]) -> Iterator[Problem]:
        there: dict[str, list[int]] = {}
        for offset, record in sorted(self.records.items()):
            if record["producer_id"] == NO_PRODUCER:
                there.setdefault(record["digest"], []).append(offset)
        for digest, offsets in there.items():
            count = meant.get(digest, 0)
            if count and len(offsets) > count:
                at = ", ".join(map(str, offsets))
                text = (
                    f"{_shown(self.records[offsets[0]])} is in {_name(self.place)} {len(offsets)} times, and was sent "
                    f"{count} times: at {at}"
                )
                yield Problem("doubled", *self.place, offsets[-1], text)


def _shown(record: Event) -> str:
    return str(record.get("show") or record["digest"])


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
