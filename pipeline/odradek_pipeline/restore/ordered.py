"""Rows in the order of their offsets, whatever the order in which a table has them, in bounded memory.

They are put by ranges of offsets into files, each of which is then sorted in memory. A range is as wide as a file may
have rows. So many ranges are read at once as files may be open, and the next ones by another scan of the table, which
leaves out row groups by their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from odradek_pipeline.audit.prints import longs

FILE_BYTES = 32 << 20
FILES = 200
ROWS = 4096
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")

Scan = Callable[[int, int], Iterator[pa.RecordBatch]]
"""The rows with offsets of [start, end), in any order, with a column `offset`."""


def in_order(scan: Scan, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """All rows of [start, end), by offset; rows of one offset lie together. Raises OSError."""
    with TemporaryDirectory(prefix="odradek-restore-") as folder:
        while start < end:
            files, start = _spread(scan, start, end, Path(folder))
            for path in files:
                with pa.memory_map(str(path)) as mapped:
                    rows = pa.ipc.open_stream(mapped).read_all().sort_by("offset")
                path.unlink()
                yield from rows.to_batches(ROWS)


def _spread(scan: Scan, start: int, end: int, folder: Path) -> tuple[list[Path], int]:
    """Write as many files as may be; the files in their order, and the offset that comes next."""
    first = next((batch for batch in scan(start, end) if batch.num_rows), None)
    if first is None:
        return [], end
    width = max(1, FILE_BYTES * first.num_rows // max(1, first.nbytes))
    end = min(end, start + width * FILES)
    writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
    try:
        for batch in scan(start, end):
            at = (longs(batch.column("offset")) - start) // width
            for number in np.unique(at).tolist():
                if number not in writers:
                    writers[number] = pa.ipc.new_stream(folder / f"{number}", batch.schema, options=_OPTIONS)
                writers[number].write_batch(batch.filter(pa.array(at == number)))
    finally:
        for writer in writers.values():
            writer.close()
    return [folder / f"{number}" for number in sorted(writers)], end
