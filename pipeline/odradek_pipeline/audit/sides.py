"""The two sides of an audit, as it reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import click
import pyarrow as pa

from odradek_pipeline.audit.prints import Longs

COMPARED = ("key", "value", "headers", "timestamp")
"""The columns that are compared, where the table has them."""


class AuditError(click.ClickException):
    """The audit cannot be made; the message says why, and what to do. Exit status 2."""

    exit_code = 2


class NotThereError(AuditError):
    """There is no such topic."""


class Extent(NamedTuple):
    """Offsets [start, end) of a partition that a read_committed consumer may read."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a topic: committed records with `offset` and the columns asked for, and what no consumer sees.

    `damaged` are ranges [first, end) of offsets whose batches cannot be read.
    """

    records: pa.RecordBatch
    aborted: Longs
    markers: Longs
    damaged: tuple[tuple[int, int], ...] = ()


class Topic(Protocol):
    """A topic, wherever it is."""

    name: str

    def extents(self) -> Mapping[int, Extent]:
        """The partitions as they are now."""
        ...

    def read(self, partition: int, start: int, end: int, columns: Sequence[str]) -> Iterator[Part]:
        """Offsets [start, end), in their order. Columns are Kafka's: key, value, headers, timestamp."""
        ...

    def damage(self) -> list[str]:
        """What was found broken while it was read."""
        ...


class Table(Protocol):
    """A table of one topic."""

    name: str

    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns that it has of those that are compared, `partition` and `offset` always among them."""
        ...

    def read(
        self, columns: Sequence[str], partition: int | None = None, start: int | None = None, end: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Its rows, in any order, with these columns; those of a partition and of offsets [start, end) alone."""
        ...
