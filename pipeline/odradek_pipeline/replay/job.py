"""A replay from its start to its end, on the driver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.reasons import reason
from odradek_pipeline.replay import ledger
from odradek_pipeline.replay.encoding import Encoding, ValueFormat, encoded, encoding_of
from odradek_pipeline.replay.ledger import StoredJob
from odradek_pipeline.replay.progress import JobManifest, ReplayFailed
from odradek_pipeline.replay.recipe import Recipe, records, value_type
from odradek_pipeline.replay.source import Source, open_source
from odradek_pipeline.replay.watch import Watch
from odradek_pipeline.replay.writer import RESULT_SCHEMA, TaskPlan, TransactionLimits, run_in_spark

logger = structlog.get_logger(__name__)

TASK_BYTES = 1 << 30
MOST_TASKS = 1_000
"""If `--tasks` is not given: bytes per task, by Spark's estimate of the source, and the most tasks (but one per core
at least).

More tasks mean more partitions of the progress topic, which cost a cluster.
"""

COUNTED_FORMATS = ("delta", "iceberg", "parquet")
"""Formats whose rows can be counted without reading them."""

SETTINGS = {
    # If enabled, an empty input may have no tasks at all.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
}


@dataclass(frozen=True, slots=True)
class Replay:
    """A job. `tasks` None: as many as it began with, else by the size of the source. `partitions` and `topic_config`:
    for a topic that does not exist yet. `client` and `producer` are librdkafka's configuration, `bootstrap.servers` in
    the former. `value_format` None: values are bytes, texts or JSON.
    """

    job: str
    source: Source
    recipe: Recipe
    client: Mapping[str, Any]
    producer: Mapping[str, Any] = field(default_factory=dict)
    tasks: int | None = None
    partitions: int | None = None
    topic_config: Mapping[str, str] = field(default_factory=dict)
    limits: TransactionLimits = field(default_factory=TransactionLimits)
    bar: bool = False
    value_format: ValueFormat | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows, and bytes of keys and values, that the job has written; `rows_before` were written before this start."""

    rows: int
    size: int
    rows_before: int
    tasks: int


def replay(spark: SparkSession, job: Replay) -> Totals:
    """Write what has not been written yet. Raises ReplayRefused, ReplayFailed."""
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    plan = TaskPlan(job.job, job.recipe.topic, job.client, job.producer, job.limits)
    try:
        return _replay(session, job, plan)
    except (KafkaException, PySparkException, Py4JError) as error:
        raise ReplayFailed(f"job {job.job!r} is not finished: {reason(error)}") from error


def _replay(session: SparkSession, job: Replay, plan: TaskPlan) -> Totals:
    if job.recipe.topic is not None and job.partitions is None:
        ledger.require_topic(plan, job.recipe.topic)
    before = ledger.look(plan)
    source = open_source(session, job.source, before.manifest.source if before.manifest else None)
    tasks = _tasks(session, job, before, source.frame)
    encoding = _encoding(job, before, source.frame)
    encode = None if encoding is None else partial(encoded, column="value", encoding=encoding)
    told = job.recipe.manifest() | ({} if encoding is None else encoding.manifest())
    shaped = records(source.frame, job.recipe, tasks, encode=encode)  # refuses what does not fit before anything begins
    begun = ledger.begin(plan, JobManifest(tasks, source.identity, told))
    if job.partitions is not None and job.recipe.topic is not None:
        ledger.create_topic(plan, job.recipe.topic, job.partitions, job.topic_config)
    done = begun.done
    logger.info(
        "replay", job=job.job, tasks=tasks, tasks_done=len(done), rows_before=begun.rows, source=source.identity
    )
    if len(done) == tasks:
        return Totals(begun.rows, begun.size, begun.rows, tasks)
    if done:
        shaped = records(source.frame, job.recipe, tasks, done, encode)
    total = source.frame.count() if job.bar and job.source.format in COUNTED_FORMATS else None
    with Watch(plan, tasks, total, bar=job.bar):
        results = shaped.mapInArrow(partial(run_in_spark, plan), RESULT_SCHEMA).collect()
    if sorted(row.task for row in results) != list(range(tasks)):
        raise ReplayFailed(f"job {job.job!r}: Spark ran {len(results)} tasks, not {tasks}")
    return Totals(sum(row.rows for row in results), sum(row.size for row in results), begun.rows, tasks)


def _encoding(job: Replay, before: StoredJob, frame: DataFrame) -> Encoding | None:
    if job.value_format is None:
        return None
    begun = before.manifest.recipe if before.manifest is not None else {}
    return encoding_of(job.value_format.chosen(value_type(frame, job.recipe), begun))


def _tasks(session: SparkSession, job: Replay, before: StoredJob, frame: DataFrame) -> int:
    if job.tasks is not None:
        return job.tasks
    if before.partitions:
        return before.partitions
    estimate: int = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return max(session.sparkContext.defaultParallelism, min(MOST_TASKS, math.ceil(estimate / TASK_BYTES)))
