"""Decisions too large for one batch, as a metadata transaction: several batches that count together (KIP-868)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from protocol.metadata.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

MOST_IN_A_BATCH = 10_000


class BatchLog(Protocol):
    """A log that takes one batch at a time."""

    @property
    def durable_end(self) -> int: ...

    def append(self, records: Sequence[Any]) -> int: ...


class TransactionalAppends:
    """Appends records that take effect together, however many they are.

    `is_open`: the log ends within a transaction, whose writer died. A power failure, or a lack of room, may cut one
    short, and so may a batch that is too large; the next append ends it first, so that none of its records ever counts.
    """

    def __init__(self, log: BatchLog, *, is_open: bool = False) -> None:
        self._log = log
        self._open: int | None = -1 if is_open else None  # where the transaction begins that has no end
        self._ends: dict[int, float] = {}  # of each transaction that may not be durable, by where it begins

    def append(self, records: Sequence[Any]) -> int:
        """Append records; return the last one's offset. Raises MetadataLogError; InvalidRequest for too many bytes."""
        if self._open is not None:
            self._ends[self._open] = self._log.append([AbortTransactionRecord(reason="its writer could not end it")])
            self._open = None
        if len(records) <= MOST_IN_A_BATCH:
            return self._log.append(records)
        self._ends = {begun: ended for begun, ended in self._ends.items() if ended >= self._log.durable_end}
        batches = _batches(records)
        begun = self._open = offset = self._log.append(next(batches))
        for batch in batches:  # if the log takes one of them not, the transaction stays open
            offset = self._log.append(batch)
        self._ends[begun], self._open = offset, None
        return offset

    def refused(self) -> None:
        """Note that everything that is not durable is gone from the log: a begin, or an end."""
        if self._open is not None:
            self._ends[self._open] = math.inf
        durable_end = self._log.durable_end
        self._open = next((begun for begun, ended in self._ends.items() if begun < durable_end <= ended), None)
        self._ends.clear()


def _batches(records: Sequence[Any]) -> Iterator[list[Any]]:
    yield [BeginTransactionRecord(name="a decision of many records")]
    for start in range(0, len(records), MOST_IN_A_BATCH):
        yield list(records[start : start + MOST_IN_A_BATCH])
    yield [EndTransactionRecord()]
