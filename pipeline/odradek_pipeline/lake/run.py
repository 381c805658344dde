"""Puts together session, job and signals."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek_pipeline import session
from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin, ClusterError
from odradek_pipeline.lake.errors import LakeError
from odradek_pipeline.lake.ingest import Surroundings
from odradek_pipeline.lake.job import LakeJob, Outcome
from odradek_pipeline.lake.progress import Reporter
from odradek_pipeline.lake.settings import ICEBERG, PARQUET, LakeSettings
from odradek_pipeline.session import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONCURRENT_FILES = "spark.sql.maxConcurrentOutputFileWriters"


def run(settings: LakeSettings, options: SessionOptions, reporter: Reporter) -> Outcome:
    """Run until the job ends or a SIGTERM or SIGINT arrives."""
    parts = (session.KAFKA,) if settings.table_format == PARQUET else (session.KAFKA, settings.table_format)
    # Spark would sort a task's rows by date to keep only one file open, even if all rows are of one day.
    conf = {CONCURRENT_FILES: "4"} | dict(options.conf)
    warehouse = settings.path if settings.table_format == ICEBERG and settings.catalog is None else None
    spark = session.build(replace(options, parts=parts, conf=conf, warehouse=warehouse))
    with session.running(spark), _admin(spark, settings) as admin:
        job = LakeJob(Surroundings(spark, Files(spark), admin, settings, reporter.counted), reporter)
        _stop_on_signals(job)
        try:
            return job.run()
        finally:
            reporter.close()


def _admin(spark: SparkSession, settings: LakeSettings) -> Admin:
    try:
        return Admin(spark, settings.cluster)
    except ClusterError as error:
        raise LakeError(f"--bootstrap or --option: {error}") from None


def _stop_on_signals(job: LakeJob) -> None:
    def stop(number: int, frame: Any) -> None:
        job.stop(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
