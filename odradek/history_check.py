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
  often than the producer meant to write it.
- reordered: of two records that a producer sent to a partition, the later one has the smaller offset.
- aborted: a read_committed consumer was sent a record of a transaction that was aborted, or was never committed.

Records of a producer without sequence numbers have no identity: an attempt to write one again looks like a second
record with the same content. It is taken for another attempt if the one before was answered with an error, or came on
another connection; otherwise it is a record of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Place = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """An anomaly: `kind` is lost, doubled, reordered or aborted; `text` says it in a sentence."""

    kind: str
    topic: str
    partition: int
    offset: int
    text: str


def shown(record: Event) -> str:
    """A record in a sentence."""
    return str(record.get("show") or record["digest"])


def name_of(place: Place) -> str:
    """`topic-partition`."""
    return f"{place[0]}-{place[1]}"


class FinalLog:
    """The records and markers of a partition at the end."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.place: Place = (event["topic"], event["partition"])
        self.records: dict[int, Any] = {record["offset"]: record for record in event["records"]}
        self._markers: dict[int, list[tuple[int, bool]]] = {}
        for marker in sorted(event["markers"], key=lambda marker: marker["offset"]):
            self._markers.setdefault(marker["producer_id"], []).append((marker["offset"], marker["committed"]))

    def why_lost(self, offset: int, digest: str) -> str | None:
        """How it was lost; None if it is there, or was removed as it should."""
        if offset < self.event["start"]:
            return None  # retention, or a deletion of records
        record = self.records.get(offset)
        if record is None:
            if offset >= self.event["end"]:
                return f"is gone: the log ends at {self.event['end']}"
            return None if self.event["compacted"] else "is gone"
        return None if record["digest"] == digest else f"is gone: {shown(record)} is there"

    def has(self, offset: int, digest: str) -> bool:
        """Whether this record is there; another one may be, after a crash."""
        return offset in self.records and self.records[offset]["digest"] == digest

    def outcome(self, offset: int) -> str:
        """The outcome of a record's transaction: committed, aborted or open; `none` if it is in none, or unknown."""
        record = self.records.get(offset)
        if record is None or not record["transactional"]:
            return "none"
        for at, committed in self._markers.get(record["producer_id"], ()):
            if at > offset:
                return "committed" if committed else "aborted"
        return "open"

    def is_committed(self, offset: int) -> bool:
        """Whether a read_committed consumer gets it."""
        return self.outcome(offset) in ("committed", "none")

    def doubled_sequences(self) -> Iterator[Anomaly]:
        """Records of idempotent producers that are there twice."""
        seen: dict[tuple[int, int, int], int] = {}
        for offset, record in sorted(self.records.items()):
            if record["producer_id"] == NO_PRODUCER or record["sequence"] < 0:
                continue
            key = record["producer_id"], record["epoch"], record["sequence"]
            first = seen.setdefault(key, offset)
            if first != offset:
                text = (
                    f"{shown(record)} of producer {record['producer_id']}, sequence {record['sequence']}, is in "
                    f"{name_of(self.place)} twice: at {first} and {offset}"
                )
                yield Anomaly("doubled", *self.place, offset, text)

    def doubled_digests(self, meant: Mapping[str, int]) -> Iterator[Anomaly]:
        """Records without sequence numbers that are there more often than they were meant to be written."""
        there: dict[str, list[int]] = {}
        for offset, record in sorted(self.records.items()):
            if record["producer_id"] == NO_PRODUCER:
                there.setdefault(record["digest"], []).append(offset)
        for digest, offsets in there.items():
            count = meant.get(digest, 0)
            if count and len(offsets) > count:
                at = ", ".join(map(str, offsets))
                text = (
                    f"{shown(self.records[offsets[0]])} is in {name_of(self.place)} {len(offsets)} times, and was sent "
                    f"{count} times: at {at}"
                )
                yield Anomaly("doubled", *self.place, offsets[-1], text)


@dataclass(slots=True, eq=False)
class Meant:
    """A record that was meant to be written once. `offset` is where it was acknowledged first, None if nowhere."""

    record: Event
    connection: str
    failed: bool = False
    offset: int | None = None


class Sends:
    """The records that were sent to one partition without sequence numbers."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._by_content: dict[tuple[Any, ...], list[Meant]] = {}
        self._streams: dict[tuple[str, str], list[Meant]] = {}
        """By client and the connection of the first attempt, in the order in which they were sent."""

    def add(self, sent: Event) -> list[Meant]:
        """The records of an attempt."""
        found: list[Meant] = []
        for record in sent["records"]:
            found.append(self._one(sent["client"], sent["connection"], record, found))
        return found

    def _one(self, client: str, connection: str, record: Event, taken: list[Meant]) -> Meant:
        alike = self._by_content.setdefault((client, record["digest"], record.get("timestamp")), [])
        for meant in alike:
            if (meant.failed or meant.connection != connection) and meant not in taken:
                meant.failed, meant.connection = False, connection
                return meant
        meant = Meant(record, connection)
        alike.append(meant)
        self._streams.setdefault((client, connection), []).append(meant)
        return meant

    def counts(self) -> Counter[str]:
        """How often each digest was meant to be written."""
        return Counter(meant.record["digest"] for alike in self._by_content.values() for meant in alike)

    def reordered(self) -> Iterator[Anomaly]:
        """Records that lie before one which the same connection sent earlier."""
        for stream in self._streams.values():
            before: Meant | None = None
            for meant in stream:
                if meant.offset is None:
                    continue
                if before is None or before.offset is None or meant.offset > before.offset:
                    before = meant
                else:
                    yield out_of_order(self._place, meant.record, meant.offset, before.record, before.offset)


def acknowledge(meant: list[Meant], offset: int) -> None:
    """Note that an attempt was acknowledged, at this offset of the first record; -1 is unknown."""
    for at, record in enumerate(meant):
        if offset >= 0:
            record.offset = offset + at if record.offset is None else min(record.offset, offset + at)


def out_of_order(place: Place, later: Event, offset: int, earlier: Event, its_offset: int) -> Anomaly:
    """`later` was sent after `earlier`, and has a smaller offset."""
    text = (
        f"{shown(later)} was sent after {shown(earlier)}, and is before it in {name_of(place)}: at offset {offset}, "
        f"the other at {its_offset}"
    )
    return Anomaly("reordered", *place, offset, text)


def find_problems(events: Iterable[Event]) -> list[Anomaly]:
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
        """The same for each attempt to write this batch of an idempotent producer."""
        return (*self.place, self.event["producer_id"], self.event["epoch"], self.event["sequence"])


class _History:
    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._sent: dict[str, _Batch] = {}
        self._sends: dict[Place, Sends] = {}
        self._reads: list[Event] = []
        self._logs: dict[Place, FinalLog] = {}

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
                self._logs[event["topic"], event["partition"]] = FinalLog(event)

    def _add_sent(self, event: Event) -> None:
        meant = None
        if event["producer_id"] == NO_PRODUCER:
            place = event["topic"], event["partition"]
            meant = self._sends.setdefault(place, Sends(place)).add(event)
        self._sent[event["id"]] = _Batch(event, meant)

    # -- lost

    def lost(self) -> Iterator[Anomaly]:
        for batch in self._acknowledged():
            log = self._logs.get(batch.place)
            for at, record in enumerate(batch.event["records"] if log is not None else ()):
                assert log is not None and batch.offset is not None
                offset = batch.offset + at
                reason = log.why_lost(offset, record["digest"])
                if reason is not None:
                    text = f"{shown(record)}, acknowledged at offset {offset} of {name_of(batch.place)}, {reason}"
                    yield Anomaly("lost", *batch.place, offset, text)

    def left_out(self) -> Iterator[Anomaly]:
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
                yield Anomaly("lost", *place, offset, text)

    # -- doubled

    def doubled(self) -> Iterator[Anomaly]:
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
                yield Anomaly("doubled", topic, partition, max(places), text)

    # -- reordered

    def reordered(self) -> Iterator[Anomaly]:
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

    def aborted(self) -> Iterator[Anomaly]:
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
                    yield Anomaly("aborted", *place, record["offset"], text)

    def _acknowledged(self) -> Iterator[_Batch]:
        return (batch for batch in self._sent.values() if batch.offset is not None and batch.offset >= 0)


def _out_of_order(batches: Iterable[_Batch]) -> Iterator[Anomaly]:
    before: _Batch | None = None
    for batch in batches:
        if batch.offset is None:
            continue
        if before is None or before.offset is None or batch.offset >= before.offset:
            before = batch
        else:
            first, its_first = batch.event["records"][0], before.event["records"][0]
            yield out_of_order(batch.place, first, batch.offset, its_first, before.offset)
