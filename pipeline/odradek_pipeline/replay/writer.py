"""One task's rows, in their order, in transactions that carry the task's progress."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from odradek_pipeline.replay.errors import InputChangedError
from odradek_pipeline.replay.progress import Progress

DIGEST_BYTES = 8

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """A transaction is committed once it has this many rows, or bytes of keys and values, or this age in seconds."""

    rows: int = 100_000
    size: int = 64 << 20
    seconds: float = 10.0


class Row(NamedTuple):
    """One record to write; `topic` None means the job's topic, `timestamp_ms` None the time of writing."""

    topic: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp_ms: int | None


class Sender(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def send(self, row: Row) -> None:
        """Queue a record; blocks while the queue is full."""

    def commit(self, progress: Progress) -> None:
        """Commit the rows since `begin` and this progress, in one transaction; return once that is done."""


class TaskWriter:
    """Writes what comes after `progress`; everything is in the order of the batches."""

    def __init__(
        self, sender: Sender, limits: Limits, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` returns seconds."""
        self._sender = sender
        self._limits = limits
        self._clock = clock
        self._before = progress
        self._rows = 0
        self._size = progress.size
        self._crc = 0
        self._open_since: float | None = None
        self._committed = progress

    def write(self, batches: Iterable[pa.RecordBatch]) -> Progress:
        """Write all rows of the task except those already done; return its last progress.

        Batches have the columns `topic`?, `key`, `value`, `headers`?, `timestamp_ms`? and `digest` (`pipeline.replay.
        recipe`). Raises InputChangedError if the rows to be skipped are not the ones that were written.
        """
        for batch in batches:
            rest = self._skip(batch)
            if rest.num_rows:
                self._write_batch(rest)
        if self._rows < self._before.rows:
            raise InputChangedError(f"{self._before.rows} rows were written before, and now there are {self._rows}")
        self._commit(done=True)
        return self._committed

    def _skip(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of the batch that has not been written yet."""
        skipped = min(batch.num_rows, self._before.rows - self._rows)
        if skipped <= 0:
            return batch
        self._count(batch, 0, skipped)
        if self._rows == self._before.rows and self._crc != self._before.crc:
            raise InputChangedError(f"the first {self._rows} rows are not the ones that were written before")
        return batch.slice(skipped)

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        counted = 0
        for index, row in enumerate(rows_of(batch), 1):
            if self._open_since is None:
                self._begin()
            self._sender.send(row)
            self._size += len(row.key or b"") + len(row.value or b"")
            if self._is_full(self._rows + index - counted):
                self._count(batch, counted, index)
                counted = index
                self._commit(done=False)
        self._count(batch, counted, batch.num_rows)

    def _is_full(self, rows: int) -> bool:
        committed, limits = self._committed, self._limits
        return (
            rows - committed.rows >= limits.rows
            or self._size - committed.size >= limits.size
            or (self._open_since is not None and self._clock() - self._open_since >= limits.seconds)
        )

    def _begin(self) -> None:
        self._sender.begin()
        self._open_since = self._clock()

    def _commit(self, *, done: bool) -> None:
        if self._open_since is None:
            self._begin()
        progress = Progress(self._rows, self._size, self._crc, done)
        self._sender.commit(progress)
        self._committed = progress
        self._open_since = None

    def _count(self, batch: pa.RecordBatch, start: int, stop: int) -> None:
        """Count rows `start` to `stop` of the batch as done."""
        digests = batch.column("digest")
        begin = digests.offset
        buffer = memoryview(digests.buffers()[1])
        self._crc = zlib.crc32(buffer[(begin + start) * DIGEST_BYTES : (begin + stop) * DIGEST_BYTES], self._crc)
        self._rows += stop - start


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The batch's rows; a column that the batch lacks is None."""
    names = batch.schema.names
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() if name in names else [None] * batch.num_rows for name in Row._fields
    }
    columns["headers"] = [one and [(header["key"], header["value"]) for header in one] for one in columns["headers"]]
    return map(Row._make, zip(*columns.values(), strict=True))
