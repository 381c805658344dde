"""The tables of a lake on S3, as others read them: Delta by delta-rs, Iceberg by pyiceberg, Parquet by Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from odradek_pipeline.lake import naming
from tests.pipeline.s3_site import S3Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG, NAMESPACE = "shop", "lake"


@dataclass
class Tables(ABC):
    """Of one lake, at a URL. `database`: the file of the catalog, where there is one."""

    spark: SparkSession
    s3: S3Site
    url: str
    database: Path

    @property
    def asked(self) -> dict[str, Any]:
        """The settings of the lake; `options` are the same for the command, `conf` is Spark's."""
        return {}

    @property
    def options(self) -> list[str]:
        return [f"--lake={self.url}"]

    @property
    def conf(self) -> dict[str, str]:
        return {}

    def rows(self, topic: str, *columns: str) -> list[tuple[Any, ...]]:
        """Of a topic's table, in order."""
        return self._rows(topic, columns)

    def dead_letters(self, topic: str, *columns: str) -> list[tuple[Any, ...]]:
        return self._rows(f"{topic}@dead-letters", columns)

    @abstractmethod
    def _rows(self, name: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def commits(self, topic: str) -> int:
        """How often a topic's table was written to."""


def _tuples(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[column] for column in columns) for row in rows)


class DeltaTables(Tables):
    def _rows(self, name: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        place = f"{self.url}/{name}".replace("s3a", "s3", 1)
        table = deltalake.DeltaTable(place, storage_options=self.s3.delta_options())
        return _tuples(table.to_pyarrow_table(columns=list(columns)).to_pylist(), columns)

    def commits(self, topic: str) -> int:
        log = fs.FileSelector(f"{self.url}/{topic}/_delta_log".removeprefix("s3a://"), allow_not_found=True)
        return sum(each.extension == "json" for each in self.s3.arrow().get_file_info(log))


class IcebergTables(Tables):
    """In a JDBC catalog, whose database is a file of SQLite.

    Its tables are made by pyiceberg: Iceberg looks for them with a query that it leaves open, so one session of Spark
    would keep all others from writing, and each batch has a session of its own.
    """

    @property
    def asked(self) -> dict[str, Any]:
        return {"table_format": "iceberg", "catalog": f"{CATALOG}.{NAMESPACE}"}

    @property
    def options(self) -> list[str]:
        return [*super().options, "--format=iceberg", f"--catalog={CATALOG}.{NAMESPACE}"]

    @property
    def conf(self) -> dict[str, str]:
        assert self._catalog.name == CATALOG, "it has made its tables"
        catalog = f"spark.sql.catalog.{CATALOG}"
        return {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{self.database}",
            f"{catalog}.jdbc.init-catalog-tables": "false",
            f"{catalog}.warehouse": f"{self.url}/tables",
        }

    @cached_property
    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(CATALOG, uri=f"sqlite:///{self.database}", **self.s3.iceberg_options())

    def _rows(self, name: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        topic, mark, _ = name.partition(naming.DEAD_LETTERS)
        table = naming.dead_letters_identifier(topic) if mark else naming.identifier(topic)
        scan = self._catalog.load_table((NAMESPACE, table)).scan(selected_fields=columns)
        return _tuples(scan.to_arrow().to_pylist(), columns)

    def commits(self, topic: str) -> int:
        try:
            return len(self._catalog.load_table((NAMESPACE, naming.identifier(topic))).snapshots())
        except NoSuchTableError:
            return 0


class ParquetTables(Tables):
    """Spark honours the sink's log."""

    @property
    def asked(self) -> dict[str, Any]:
        return {"table_format": "parquet"}

    def _rows(self, name: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.read.parquet(f"{self.url}/{name}").select(*columns).collect())

    def commits(self, topic: str) -> int:
        log = fs.FileSelector(f"{self.url}/{topic}/_spark_metadata".removeprefix("s3a://"), allow_not_found=True)
        return sum(not each.base_name.startswith(".") for each in self.s3.arrow().get_file_info(log))
