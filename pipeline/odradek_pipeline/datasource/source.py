"""The `odradek` data source: a broker's segment files as a Spark table, without a broker or a jar."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from odradek_pipeline.datasource.columns import names_of, spark_schema
from odradek_pipeline.datasource.filters import PushdownReader
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from odradek_pipeline.datasource.stream import OdradekStreamReader


class OdradekDataSource(DataSource):
    """`spark.read.format("odradek").load(DATA_FOLDER)`; `docs/pipeline.md` describes its options and guarantees."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        """All columns, or those of option `columns`. Raises DataSourceError."""
        return spark_schema(SourceOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """`schema` may contain only some of the columns, in any order. Raises DataSourceError."""
        options = SourceOptions.parse(self.options)
        kind = PushdownReader if options.filter_pushdown else OdradekReader
        return kind(options, names_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """As `reader`. Raises DataSourceError."""
        return OdradekStreamReader(SourceOptions.parse(self.options), names_of(schema))


def register(spark: SparkSession) -> None:
    """Make the source known to a session under the name `odradek`.

    With a local master its tasks run in this Python, where `odradek_pipeline` is installed, unless another was chosen:
    Spark would take the first `python3` of the PATH.
    """
    context = spark.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if str(context.master).startswith("local") and not chosen:
        context.pythonExec = sys.executable
    spark.dataSource.register(OdradekDataSource)
