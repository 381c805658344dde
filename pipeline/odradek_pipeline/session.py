"""The SparkSession of every job: jars, master, and a one-line error for what a machine lacks."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek_pipeline.schemas.lookup import AVRO as AVRO_KIND
from odradek_pipeline.schemas.lookup import JSON as JSON_KIND
from odradek_pipeline.schemas.lookup import PROTOBUF as PROTOBUF_KIND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
KAFKA = "kafka"
DELTA = "delta"
ICEBERG = "iceberg"
AVRO = "avro"
S3 = "s3"
PYSPARK = "pyspark>=4.0.0,<4.2"
SDK = "2.57.8"
SDK_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client")
SDK_BUNDLE = "software.amazon.awssdk:bundle"


def _s3_jars(hadoop: str) -> str:
    """Hadoop's S3A, in the version that Spark has, with the modules of Amazon's SDK that it uses: 15 MB.

    The bundle that it asks for has all modules, and 600 MB.
    """
    sdk = [f"software.amazon.awssdk:{module}:{SDK}" for module in SDK_MODULES]
    return ",".join((f"org.apache.hadoop:hadoop-aws:{hadoop}", *sdk))


JARS: dict[str, dict[str, str]] = {
    "4.0": {
        KAFKA: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        DELTA: "io.delta:delta-spark_2.13:4.0.0",
        ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
        AVRO: "org.apache.spark:spark-avro_2.13:4.0.0",
        S3: _s3_jars("3.4.1"),
    },
    "4.1": {
        KAFKA: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        DELTA: "io.delta:delta-spark_4.1_2.13:4.1.0",
        ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        AVRO: "org.apache.spark:spark-avro_2.13:4.1.1",
        S3: _s3_jars("3.4.2"),
    },
}
"""Maven coordinates by Spark's minor version. Within one, any patch of Spark works with the connector that is named;
not every patch has a whole set of the connector's jars."""

ICEBERG_CATALOG = "odradek_lake"
CLASSES = {
    KAFKA: ("org.apache.spark.sql.kafka010.KafkaSourceProvider", "org.apache.kafka.clients.admin.AdminClient"),
    DELTA: ("io.delta.sql.DeltaSparkSessionExtension", "io.delta.storage.LogStore"),
    ICEBERG: ("org.apache.iceberg.spark.SparkCatalog",),
    AVRO: ("org.apache.spark.sql.avro.AvroDataToCatalyst",),
    S3: ("org.apache.hadoop.fs.s3a.S3AFileSystem", "software.amazon.awssdk.http.apache.ApacheHttpClient"),
}
"""Classes to find in each part's jars; the second ones are in jars that are easily forgotten."""

LOCAL_MASTER = "local[*,4]"
"""All cores, and four attempts per task, as on a cluster: plain `local[*]` allows one."""


class NotInstalled(click.ClickException):
    """Something that no Python package installs is missing; the message is one line that says what to install."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of the session that a user may set.

    `master` None: the one given to spark-submit, else `local[*,4]`. `parts` are the jars needed.
    `packages`, if not None, replaces the Maven coordinates chosen by `parts`; empty: the cluster has the jars already.
    `conf` is applied last to Spark's configuration. `warehouse` is the folder of the Iceberg catalog `odradek_lake`.
    """

    app_name: str = "odradek-pipeline"
    master: str | None = None
    parts: tuple[str, ...] = ()
    packages: tuple[str, ...] | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    warehouse: str | None = None


def build(options: SessionOptions) -> SparkSession:
    """Start (or find) the session. Raises NotInstalled if a supported pyspark, Java 17 or a jar is not available."""
    check_packages("pyspark")
    if options.packages is None:
        check_spark(_spark_version())
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        check_java()
    master = options.master or (None if submitted else LOCAL_MASTER)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(options.app_name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings(options, master, _spark_version()).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise NotInstalled(
                "Spark's JVM did not start; when its output names a missing dependency, the jars could not be fetched: "
                "give them with --conf spark.jars=FILES --packages ''"
            ) from None
        raise
    session.sparkContext.setLogLevel("WARN")
    if missing := [name for part in options.parts for name in CLASSES[part] if not _has_class(session, name)]:
        session.stop()
        known = JARS.get(_minor(_spark_version()))
        wanted = "the jars for its version" if known is None else ",".join(known[part] for part in options.parts)
        raise NotInstalled(f"Spark has no jar with {missing[0]}: it needs --packages {wanted}, or these jars")
    return session


@contextlib.contextmanager
def running(session: SparkSession) -> Iterator[None]:
    """Stop the session at the end. Raises ClickException if its JVM has ended before."""
    from py4j.protocol import Py4JNetworkError

    gone = (Py4JNetworkError, ConnectionError)
    try:
        yield
        session.stop()
    except gone:
        raise click.ClickException("Spark's JVM has ended; started again, the job goes on where it was") from None
    except BaseException:
        with contextlib.suppress(*gone):
            session.stop()
        raise


def settings(options: SessionOptions, master: str | None, spark_version: str) -> dict[str, str]:
    """Spark's configuration for these options; `master` None means the cluster given to spark-submit."""
    conf = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    wanted = coordinates(options.parts, spark_version) if options.packages is None else options.packages
    if wanted:
        conf["spark.jars.packages"] = ",".join(wanted)
        if S3 in options.parts:
            conf["spark.jars.excludes"] = SDK_BUNDLE
    if master is not None and master.startswith("local"):
        conf |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(2 * (os.cpu_count() or 1)),
            "spark.log.structuredLogging.enabled": str(not sys.stderr.isatty()).lower(),
        }
    extensions = []
    if DELTA in options.parts:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if ICEBERG in options.parts:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        if options.warehouse is not None:
            conf |= {
                f"spark.sql.catalog.{ICEBERG_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
                f"spark.sql.catalog.{ICEBERG_CATALOG}.type": "hadoop",
                f"spark.sql.catalog.{ICEBERG_CATALOG}.warehouse": options.warehouse,
            }
    if extensions:
        conf["spark.sql.extensions"] = ",".join(extensions)
    return conf | dict(options.conf)


def coordinates(parts: Iterable[str], spark_version: str) -> tuple[str, ...]:
    """Maven coordinates of the jars for a supported version of Spark."""
    known = JARS[_minor(spark_version)]
    return tuple(known[part] for part in parts)


def check_spark(version: str) -> None:
    """Raises NotInstalled for a Spark that this package has no jars for: one would be missing, or not fit."""
    if _minor(version) not in JARS:
        raise NotInstalled(
            f"PySpark {version} is not supported, only {' and '.join(JARS)} are: pip install '{PYSPARK}'. "
            "With jars of your own (--packages with coordinates or '') this is not checked"
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def check_packages(*names: str) -> None:
    """Raises NotInstalled unless Python has these packages."""
    if missing := [name for name in names if not _has_module(name)]:
        raise NotInstalled(f"Python has no {', '.join(missing)}: pip install ./pipeline in a checkout of Odradek")


CODECS = {AVRO_KIND: ("fastavro",), JSON_KIND: ("jsonschema",), PROTOBUF_KIND: ("google", "google.protobuf")}


def check_codecs(kind: str) -> None:
    """Raises NotInstalled unless the libraries for schemas of a kind are there, and the compiler of Protobuf."""
    missing = next((name for name in CODECS[kind] if not _has_module(name)), None)
    if missing is None and kind == PROTOBUF_KIND and not (_has_module("protoc") or shutil.which("protoc")):
        missing = "protoc"
    if missing is not None:
        raise NotInstalled(f"there is no {missing}: pip install './pipeline[registry]' in a checkout of Odradek")


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def check_java() -> None:
    """Raises NotInstalled unless JAVA_HOME, or else the PATH, has the Java 17 or newer that Spark 4 needs."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None:
        raise NotInstalled(f"Spark needs Java and there is none: {advice}")
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        raise NotInstalled(f"Spark needs Java and {java} does not run: {advice}") from None
    major = java_major(output)
    if major < OLDEST_JAVA:
        raise NotInstalled(f"Spark needs Java {OLDEST_JAVA} and {java} is Java {major}: {advice}")


def java_major(output: str) -> int:
    """The major version in the output of `java -version` ("1.8.0" is 8); 0 if there is none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if found is None:
        return 0
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def _has_class(session: SparkSession, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm: Any = session._jvm
    try:
        jvm.java.lang.Class.forName(name, False, jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    except Py4JJavaError:
        return False
    return True


def _spark_version() -> str:
    import pyspark

    return pyspark.__version__
