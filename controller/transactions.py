"""Decisions too large for one batch, as a metadata transaction: several batches that count together (KIP-868)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from protocol.errors import KafkaError
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
        self._must_abort = is_open
        self._begun = self._ended = -1

    def append(self, records: Sequence[Any]) -> int:
        """Append records; return the last one's offset. Raises MetadataLogError; InvalidRequest for too many bytes."""
        if self._must_abort:
            self._log.append([AbortTransactionRecord(reason="its writer could not end it")])
            self._must_abort = False
        if len(records) <= MOST_IN_A_BATCH:
            return self._log.append(records)
        offset = -1
        for number, batch in enumerate(_batches(records)):
            try:
                offset = self._log.append(batch)
            except KafkaError:
                self._must_abort = number > 0
                raise
            if number == 0:
                self._begun = offset - len(batch) + 1
        self._ended = offset
        return offset

    def refused(self) -> None:
        """Note that everything that is not durable is gone from the log."""
        if self._begun < self._log.durable_end <= self._ended:
            self._must_abort = True
            self._begun = self._ended = -1


def _batches(records: Sequence[Any]) -> Iterator[list[Any]]:
    yield [BeginTransactionRecord(name="a decision of many records")]
    for start in range(0, len(records), MOST_IN_A_BATCH):
        yield list(records[start : start + MOST_IN_A_BATCH])
    yield [EndTransactionRecord()]
