"""The segment files of a broker as a Spark data source: `register(spark)`, then `spark.read.format("odradek")`.

What reads the files needs no Spark (`audit` uses it without), so the source itself is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError

if TYPE_CHECKING:
    from odradek_pipeline.datasource.source import OdradekDataSource, register

__all__ = ["CorruptLogError", "DataLossError", "DataSourceError", "OdradekDataSource", "register"]


def __getattr__(name: str) -> Any:
    if name in ("OdradekDataSource", "register"):
        from odradek_pipeline.datasource import source

        return getattr(source, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
