"""What producers without sequence numbers meant to write, as far as their requests tell.

Such a producer's records have no identity: an attempt to write one again looks like a second record with the same
content. It is taken for another attempt if the one before was answered with an error, or came on another connection;
otherwise it is a record of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.history_words import Event, Place, Problem, name_of, shown


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

    def reordered(self) -> Iterator[Problem]:
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
    """An attempt was acknowledged, at this offset of the first record; -1 is unknown."""
    for at, one in enumerate(meant):
        if offset >= 0:
            one.offset = offset + at if one.offset is None else min(one.offset, offset + at)


def out_of_order(place: Place, later: Event, offset: int, earlier: Event, its_offset: int) -> Problem:
    """`later` was sent after `earlier`, and has a smaller offset."""
    text = (
        f"{shown(later)} was sent after {shown(earlier)}, and is before it in {name_of(place)}: at offset {offset}, "
        f"the other at {its_offset}"
    )
    return Problem("reordered", *place, offset, text)
