"""The map of offsets as it is made: old offsets and those that the records have got, in ranges, as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odradek_pipeline.audit.prints import Longs
from odradek_pipeline.audit.topic_table import MAP_SCHEMA

ROWS = 64 << 10


class MapWriter:
    """Writes `path`, which is there once `close` was called. Used in a `with`; the draft goes if that fails."""

    def __init__(self, path: Path, topic: str, new_topic: str) -> None:
        """Raises OSError."""
        self._path, self._draft = path, path.with_name(f"{path.name}.draft")
        self._file = pq.ParquetWriter(self._draft, MAP_SCHEMA)
        self._names = topic, new_topic
        self._rows: list[tuple[int, int, int, int]] = []
        self._run: tuple[int, int, int, int] | None = None

    def add(self, partition: int, old: Longs, new: Longs) -> None:
        """Offsets of a partition, which ascend. Partitions come one after the other."""
        if not len(old):
            return
        breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1))
        firsts = np.concatenate(([0], breaks + 1))
        lasts = np.concatenate((breaks, [len(old) - 1]))
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            self._range(partition, int(old[first]), int(old[last]), int(new[first]))

    def _range(self, partition: int, first: int, last: int, new: int) -> None:
        run = self._run
        if run is not None and run[0] == partition and run[2] + 1 == first and run[3] + first - run[1] == new:
            self._run = partition, run[1], last, run[3]
            return
        if run is not None:
            self._rows.append(run)
        if len(self._rows) >= ROWS:
            self._write()
        self._run = partition, first, last, new

    def _write(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * 4
        topic, new_topic = ([name] * len(self._rows) for name in self._names)
        arrays = [topic, *columns[:3], new_topic, columns[3]]
        parts = [pa.array(values, kind) for values, kind in zip(arrays, MAP_SCHEMA.types, strict=True)]
        self._file.write_batch(pa.RecordBatch.from_arrays(parts, schema=MAP_SCHEMA))
        self._rows = []

    def close(self) -> None:
        """Write the rest, and give the file its name. Raises OSError."""
        if self._run is not None:
            self._rows.append(self._run)
        self._write()
        self._file.close()
        self._draft.replace(self._path)

    def discard(self) -> None:
        """Remove what was written. Raises OSError."""
        self._file.close()
        self._draft.unlink(missing_ok=True)
