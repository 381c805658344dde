"""The process that writes Parquet: `python -I -S parquet_process.py PATH`, PATH being the node's `sys.path` as JSON.

It reads rows as lines of JSON (`rows.py`), and writes the file to its output as it goes.
"""

from __future__ import annotations

import itertools
import json
import sys

ROWS_OF_A_GROUP = 1_000


def main() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.string()),
            ("value", pa.string()),
            ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
        ]
    )
    with pq.ParquetWriter(pa.PythonFile(sys.stdout.buffer, mode="w"), schema) as writer:
        while lines := list(itertools.islice(sys.stdin, ROWS_OF_A_GROUP)):
            rows = [json.loads(line) for line in lines]
            for row in rows:
                row["headers"] = [{"name": name, "value": value} for name, value in row["headers"]]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[1])
    main()
