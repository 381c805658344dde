"""The `odradek` data source: a broker's segment files as a Spark table, without a broker or a jar."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pipeline.datasource.columns import names_of, spark_schema
from pipeline.datasource.filters import PushdownReader
from pipeline.datasource.options import SourceOptions
from pipeline.datasource.reader import OdradekReader
from pipeline.datasource.stream import OdradekStreamReader


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
    """Make the source known to a session under the name `odradek`."""
    spark.dataSource.register(OdradekDataSource)
