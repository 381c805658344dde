"""One JVM and one broker for all tests of this folder: tests use topics, tables and checkpoints of their own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odradek import Broker
from odradek_pipeline import session
from tests.brokers import sound_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Each plan runs once on a handful of records, so compiling it would not pay.
SHORT_LIVED = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # of VACUUM's tasks
}


HERE = Path(__file__).parent
SECONDS = 600
"""The limit of a test here: Spark is slow to start, and slower on a busy machine."""


LONGEST = "test_other_spark.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its limit; begin with the longest, which nothing would run beside at the end."""
    items.sort(key=lambda item: item.path.name != LONGEST)
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


PARTS = (session.KAFKA, session.DELTA, session.ICEBERG, session.AVRO, session.S3)
SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"
"""The driver of a JDBC catalog's database, which pyiceberg reads, too."""


def jars() -> tuple[str, ...]:
    """Maven coordinates of all jars. Raises NotInstalled without PySpark, or with one that has none."""
    session.check_packages("pyspark")
    import pyspark

    session.check_spark(pyspark.__version__)
    return (*session.coordinates(PARTS, pyspark.__version__), SQLITE)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Iceberg catalog `odradek_lake`."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """Local Spark with the Kafka connector and both table formats; skips where Java or the jars cannot be had."""
    options = session.SessionOptions(
        app_name="tests",
        master="local[2]",
        parts=PARTS,
        warehouse=str(warehouse),
        conf=SHORT_LIVED,
    )
    try:
        started = session.build(replace(options, packages=jars()))
    except session.NotInstalled as error:
        pytest.skip(error.message)
    assert started.version.startswith(os.environ.get("EXPECTED_SPARK", "")), "another PySpark was imported"
    yield started
    started.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker of this checkout that keeps records of any age; tests that kill it start their own."""
    with sound_broker({"log.retention.ms": -1}) as started:
        yield started


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """One to be killed."""
    with Broker({"flush.messages": 1}, profile="dev") as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"
