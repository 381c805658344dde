"""The lake's tables as others read them: delta-rs, pyiceberg and DuckDB, none of which is Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow
from pyiceberg.table import StaticTable


def arrow(table_format: str, folder: Path) -> pyarrow.Table:
    """The newest state of the table in a folder."""
    if table_format == "delta":
        return deltalake.DeltaTable(str(folder)).to_pyarrow_table()
    return iceberg(folder).scan().to_arrow()


def iceberg(folder: Path) -> StaticTable:
    version = (folder / "metadata" / "version-hint.text").read_text().strip()
    return StaticTable.from_metadata(str(folder / "metadata" / f"v{version}.metadata.json"))


def rows(table_format: str, folder: Path) -> list[dict[str, Any]]:
    return list(arrow(table_format, folder).to_pylist())
