"""Finds what went wrong in a history: acknowledged records lost, doubled, reordered, or read though aborted.

A history is a list of events, as `History.events()` gives it and as JSON has it, in the order in which they happened:

| type | fields |
| --- | --- |
| began | ends: by topic, by partition (a text), the offset at which the history begins; 0 for what is not there |
| sent | id, client, connection, topic, partition, producer_id, epoch, sequence, records: digest and timestamp of each |
| acked | id, topic, partition, offset: that of the first record |
| failed | id, topic, partition, error: what was sent was answered with an error |
| read | topic, partition, from, to, committed, records: each with offset and digest |
| deleted | topic: it was deleted, and what was sent to it does not count any more; another may get its name |
| restored | ends, as in began: a snapshot was restored, and what was before does not count any more |
| log | topic, partition, start, end, compacted, records, markers: what is there at the end |

A batch is sent once for each attempt; an attempt has its own id. A digest stands for key, value and headers. A record
of a log has offset, digest, producer_id, epoch, sequence and transactional; a marker has offset, producer_id and
committed. `producer_id` is -1 for none. `show` may be there as text for messages.

What is called so here:
- lost: it was acknowledged, retention has not removed it, and it is not there, or another record is; or it was left out
  of what a consumer was sent. What compaction removes is not lost.
- doubled: a batch of an idempotent producer is at two places; or a record of any other producer is in the log more
  often than the producer meant to write it (`odradek.history_sends`).
- reordered: of two records that a producer sent to a partition, the later one has the smaller offset.
- aborted: a read_committed consumer was sent a record of a transaction that was aborted, or was never committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from odradek.history_log import Log
from odradek.history_sends import Meant, Sends, acknowledge, out_of_order
from odradek.history_words import NO_PRODUCER, Event, Place, Problem, name_of, shown

__all__ = ["Problem", "find_problems"]


def find_problems(events: Iterable[Event]) -> list[Problem]:
    """All anomalies of a history."""
    history = _History()
    for event in events:
        history.add(event)
    found = [*history.lost(), *history.left_out(), *history.doubled(), *history.reordered(), *history.aborted()]
    return sorted(set(found))


@dataclass(slots=True)
class _Batch:
    """An attempt to write a batch, and where it was acknowledged; None if it was not.

    `meant` has its records if they have no sequence numbers.
    """

    event: Event
    meant: list[Meant] | None
    offset: int | None = None

    @property
    def place(self) -> Place:
        return self.event["topic"], self.event["partition"]

    @property
    def identity(self) -> tuple[Any, ...]:
        """What another attempt for the same batch of an idempotent producer has in common with this one."""
        return (*self.place, self.event["producer_id"], self.event["epoch"], self.event["sequence"])


class _History:
    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._sent: dict[str, _Batch] = {}
        self._sends: dict[Place, Sends] = {}
        self._reads: list[Event] = []
        self._logs: dict[Place, Log] = {}

    def _forget_topic(self, topic: str) -> None:
        self._sent = {name: batch for name, batch in self._sent.items() if batch.event["topic"] != topic}
        self._sends = {place: sends for place, sends in self._sends.items() if place[0] != topic}
        self._reads = [read for read in self._reads if read["topic"] != topic]

    def add(self, event: Event) -> None:
        match event["type"]:
            case "sent":
                self._add_sent(event)
            case "acked" if event["id"] in self._sent:
                batch = self._sent[event["id"]]
                batch.offset = event["offset"]
                acknowledge(batch.meant or [], event["offset"])
            case "failed" if event["id"] in self._sent:
                for meant in self._sent[event["id"]].meant or ():
                    meant.failed = True
            case "read":
                self._reads.append(event)
            case "deleted":
                self._forget_topic(event["topic"])
            case "restored":
                self._forget()
            case "log":
                self._logs[event["topic"], event["partition"]] = Log(event)

    def _add_sent(self, event: Event) -> None:
        meant = None
        if event["producer_id"] == NO_PRODUCER:
            place = event["topic"], event["partition"]
            meant = self._sends.setdefault(place, Sends(place)).add(event)
        self._sent[event["id"]] = _Batch(event, meant)

    # -- lost

    def lost(self) -> Iterator[Problem]:
        for batch in self._acknowledged():
            log = self._logs.get(batch.place)
            for at, record in enumerate(batch.event["records"] if log is not None else ()):
                assert log is not None and batch.offset is not None
                offset = batch.offset + at
                reason = log.why_lost(offset, record["digest"])
                if reason is not None:
                    text = f"{shown(record)}, acknowledged at offset {offset} of {name_of(batch.place)}, {reason}"
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
                    f"{shown(record)} at offset {offset} of {name_of(place)} was left out of what a consumer was sent "
                    f"from offset {read['from']} to {read['to']}"
                )
                yield Problem("lost", *place, offset, text)

    # -- doubled

    def doubled(self) -> Iterator[Problem]:
        for place, log in self._logs.items():
            yield from log.doubled_sequences()
            if place in self._sends:
                yield from log.doubled_digests(self._sends[place].counts())
        offsets: dict[tuple[Any, ...], set[int]] = {}
        for batch in self._acknowledged():
            if batch.meant is None and batch.offset is not None:
                offsets.setdefault(batch.identity, set()).add(batch.offset)
        for identity, places in offsets.items():
            if len(places) > 1:
                topic, partition, producer_id, _, sequence = identity
                at = ", ".join(map(str, sorted(places)))
                text = (
                    f"the batch of producer {producer_id} with sequence {sequence} was acknowledged at several offsets "
                    f"of {name_of((topic, partition))}: {at}"
                )
                yield Problem("doubled", topic, partition, max(places), text)

    # -- reordered

    def reordered(self) -> Iterator[Problem]:
        for sends in self._sends.values():
            yield from sends.reordered()
        streams: dict[tuple[Any, ...], dict[int, _Batch]] = {}
        for batch in self._acknowledged():
            if batch.meant is None:
                *stream, sequence = batch.identity
                first = streams.setdefault(tuple(stream), {}).setdefault(sequence, batch)
                if first.offset is not None and batch.offset is not None and batch.offset < first.offset:
                    streams[tuple(stream)][sequence] = batch
        for batches in streams.values():
            yield from _out_of_order([batch for _, batch in sorted(batches.items())])

    # -- aborted

    def aborted(self) -> Iterator[Problem]:
        for read in self._reads:
            place = read["topic"], read["partition"]
            log = self._logs.get(place)
            for record in read["records"] if read["committed"] and log is not None else ():
                assert log is not None
                outcome = log.outcome(record["offset"])
                if outcome in ("aborted", "open") and log.has(record["offset"], record["digest"]):
                    what = "was aborted" if outcome == "aborted" else "was never committed"
                    text = (
                        f"{shown(record)} at offset {record['offset']} of {name_of(place)} was sent to a "
                        f"read_committed consumer, and its transaction {what}"
                    )
                    yield Problem("aborted", *place, record["offset"], text)

    def _acknowledged(self) -> Iterator[_Batch]:
        return (batch for batch in self._sent.values() if batch.offset is not None and batch.offset >= 0)


def _out_of_order(batches: Iterable[_Batch]) -> Iterator[Problem]:
    before: _Batch | None = None
    for batch in batches:
        if batch.offset is None:
            continue
        if before is None or before.offset is None or batch.offset >= before.offset:
            before = batch
        else:
            first, its_first = batch.event["records"][0], before.event["records"][0]
            yield out_of_order(batch.place, first, batch.offset, its_first, before.offset)
