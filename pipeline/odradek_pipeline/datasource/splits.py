"""Cuts what is to be read into pieces of about the same size, using the offset indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from odradek_pipeline.datasource.errors import DataLossError, DataSourceError
from odradek_pipeline.datasource.log_view import LogState
from odradek_pipeline.datasource.offsets import OffsetRange
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.pieces import Piece, pieces_of, size_of
from odradek_pipeline.datasource.places import RemoteFileMissing
from odradek_pipeline.protocol.topic_partition import TopicPartition

SMALL_BYTES = 8 << 20
_ATTEMPTS = 100


class Split(InputPartition):
    """The pieces of one Spark task."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


def splits_of(
    look: Callable[[], Mapping[TopicPartition, LogState]],
    ranges: Callable[[Mapping[TopicPartition, LogState]], list[OffsetRange]],
    options: SourceOptions,
) -> list[Split]:
    """The splits of the ranges found by a look; looks again while segments disappear before they are opened.

    Raises DataSourceError or a subclass, OSError.
    """
    missing: set[str] = set()
    for _ in range(_ATTEMPTS):
        states = look()
        try:
            return plan_splits(ranges(states), options.split_bytes, options.min_partitions)
        except RemoteFileMissing as error:
            name = str(error.filename)
            if name in missing:
                raise DataLossError(f"{name} is missing, and what is known of remote storage has it.") from error
            missing.add(name)
        except FileNotFoundError:
            continue  # a segment was compacted or deleted since the look
    raise DataSourceError("The files of the logs go faster than they can be opened.")


def plan_splits(ranges: Iterable[OffsetRange], split_bytes: int, min_partitions: int) -> list[Split]:
    """The splits, each of up to about `split_bytes`; small neighbours share one, unless that makes too few.

    Raises FileNotFoundError if a segment was removed meanwhile, OSError, CorruptLogError.
    """
    ranges = list(ranges)
    target = split_bytes
    if min_partitions > 1:
        target = max(1, min(split_bytes, sum(size_of(span) for span in ranges) // min_partitions))
    pieces = [piece for span in ranges for piece in pieces_of(span, target)]
    splits: list[Split] = []
    together: list[Piece] = []
    size = 0
    for piece in pieces:
        if together and size + piece.size > min(target, SMALL_BYTES):
            splits.append(Split(tuple(together)))
            together, size = [], 0
        together.append(piece)
        size += piece.size
    if together:
        splits.append(Split(tuple(together)))
    return splits
