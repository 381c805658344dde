"""What a partition has at the end of a history, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odradek.history_words import NO_PRODUCER, Event, Place, Problem, name_of, shown


class Log:
    """What is in a partition at the end."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.place: Place = (event["topic"], event["partition"])
        self.records: dict[int, Any] = {record["offset"]: record for record in event["records"]}
        self._markers: dict[int, list[tuple[int, bool]]] = {}
        for marker in sorted(event["markers"], key=lambda one: one["offset"]):
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

    def doubled_sequences(self) -> Iterator[Problem]:
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
                yield Problem("doubled", *self.place, offset, text)

    def doubled_digests(self, meant: Mapping[str, int]) -> Iterator[Problem]:
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
                yield Problem("doubled", *self.place, offsets[-1], text)
