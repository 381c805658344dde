"""A data folder of small segments, and what the data source reads of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from storage.append_types import LogConfig
from tests.unit.storage.cleaner.cleaning import put
from tests.unit.storage.support import NOW, Rig

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, min_cleanable_dirty_ratio=0.0)


def fill(rig: Rig, count: int, *, keys: int = 1_000_000, timestamp: int = NOW) -> None:
    """Records 0, 1, 2, ... of a hundred bytes, each a batch, a second apart; keys repeat after `keys`."""
    for number in range(count):
        value = str(number).encode().ljust(100)
        put(rig.log(), (str(number % keys).encode(), value), timestamp=timestamp + 1000 * number)


def reader_of(root: str, **options: Any) -> OdradekReader:
    return OdradekReader(SourceOptions.parse({"path": root, **options}), ("offset", "key", "value"))


def read(reader: OdradekReader, splits: list[Any] | None = None) -> list[int]:
    """The numbers of the records."""
    splits = reader.partitions() if splits is None else splits
    return [int(row["value"]) for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


def folder(rig: Rig) -> Path:
    return Path(rig.log().folder)


def segments(rig: Rig) -> list[Path]:
    return sorted(folder(rig).glob("*.log"))
