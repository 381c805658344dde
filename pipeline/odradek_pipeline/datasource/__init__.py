"""The segment files of a broker as a Spark data source: `register(spark)`, then `spark.read.format("odradek")`."""

from __future__ import annotations

from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError
from odradek_pipeline.datasource.source import OdradekDataSource, register

__all__ = ["CorruptLogError", "DataLossError", "DataSourceError", "OdradekDataSource", "register"]
