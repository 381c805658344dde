"""Runs the queries of all topics: finds topics, starts queries, watches them, retries, ends; `run` is the command."""

from __future__ import annotations

import enum
import signal
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from odradek_pipeline import session
from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin, ClusterError
from odradek_pipeline.lake import naming
from odradek_pipeline.lake.group import GroupProgress, default_name
from odradek_pipeline.lake.ingest import Ingest, IngestServices
from odradek_pipeline.lake.lease import LEASE_SECONDS, Leases
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.parquet import ParquetIngest
from odradek_pipeline.lake.progress import Reporter, end_of
from odradek_pipeline.lake.settings import ICEBERG, PARQUET, LakeSettings
from odradek_pipeline.lake.transactional import TransactionalIngest
from odradek_pipeline.lake.upsert import UpsertIngest
from odradek_pipeline.reasons import reason
from odradek_pipeline.registry import Registry
from odradek_pipeline.s3 import Objects
from odradek_pipeline.schemas.client import RegistryAway
from odradek_pipeline.schemas.lookup import AVRO
from odradek_pipeline.session import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


logger = structlog.get_logger(__name__)

TICK_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
REGISTRY_SECONDS = 5.0


class TopicPhase(enum.Enum):
    """A topic's phase: about to start (again), with running queries, at its end, or given up."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job ended: the topics that failed, with the reasons, and the signal that stopped it with work left."""

    failed: Mapping[str, str]
    interrupted_by: int | None = None


@dataclass(slots=True)
class TopicRun:
    """`not_before`: seconds of the monotonic clock; `attempts`: failures in a row; `seen`: newest batch by query."""

    ingest: Ingest
    phase: TopicPhase = TopicPhase.WAITING
    not_before: float = 0.0
    attempts: int = 0
    queries: list[StreamingQuery] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    error: str = ""


class LakeJob:
    """`run` it; `stop` ends it from another thread or a signal's handler."""

    def __init__(self, around: IngestServices, reporter: Reporter) -> None:
        self._around = around
        self._settings = around.settings
        self._reporter = reporter
        group = (
            default_name(around.files.whole(around.settings.path))
            if around.settings.group is None
            else around.settings.group
        )
        self._group = GroupProgress(around.admin, group)
        self._leases = Leases(Objects(around.spark), self._settings.lease) if self._settings.is_on_s3 else None
        self._runs: dict[str, TopicRun] = {}
        self._stopped = threading.Event()
        self._signal: int | None = None
        self._next_look = 0.0
        self._failed_looks = 0
        self._looked = False

    def stop(self, signal_number: int) -> None:
        self._signal = signal_number
        self._stopped.set()

    def run(self) -> JobOutcome:
        """Run until every topic is done (`--available-now`), every topic failed, or `stop`."""
        try:
            while not self._stopped.is_set():
                if time.monotonic() >= self._next_look:
                    self._look()
                self._start_waiting()
                for topic, run in self._runs.items():
                    if run.phase is TopicPhase.RUNNING:
                        self._watch(topic, run)
                if self._over():
                    break
                self._stopped.wait(TICK_SECONDS)
        finally:
            for run in self._runs.values():
                _end(run)
            if self._leases is not None:
                self._leases.end()
        failed = {topic: run.error for topic, run in self._runs.items() if run.phase is TopicPhase.FAILED}
        return JobOutcome(failed, self._signal if self._stopped.is_set() and self._work_left() else None)

    def _work_left(self) -> bool:
        """Whether a topic may have records that are in no table yet; of one without a batch so far nothing is known."""
        if not self._looked:
            return True
        running = (topic for topic, run in self._runs.items() if run.phase is not TopicPhase.DONE)
        return any(self._reporter.behind(topic) != 0 for topic in running)

    def _look(self) -> None:
        """Look at the topics. Queries go on meanwhile; if brokers do not answer many looks in a row, the job ends."""
        try:
            self._look_for_topics()
        except ClusterError as error:
            self._failed_looks += 1
            if self._failed_looks >= self._settings.attempts:
                raise LakeError(f"the brokers do not answer: {error}") from None
            pause = _pause(self._failed_looks)
            logger.warning("brokers not responding", error=str(error), retry_in_seconds=pause)
            self._next_look = time.monotonic() + pause
        else:
            self._failed_looks = 0
            self._next_look = time.monotonic() + self._settings.discover_interval

    def _look_for_topics(self) -> None:
        settings = self._settings
        known = settings.topics if settings.pattern is None else self._around.admin.topics()
        wanted = {topic for topic in known if settings.wants(topic)}
        missing = set() if settings.pattern is not None or self._looked else self._missing(wanted)
        if not wanted and not self._runs:
            logger.warning("no topic matches the pattern", pattern=settings.pattern)
        if settings.catalog is not None:
            naming.check_distinct(wanted | self._runs.keys())
        for topic in sorted(wanted - self._runs.keys()):
            run = self._runs[topic] = TopicRun(_ingest(self._around, topic))
            run.ingest.appeared_later = self._looked
            if topic not in missing:  # of others the ingest says what is wrong
                logger.info("topic found", topic=topic)
        self._looked = True
        self._check_ids({topic: run for topic, run in self._runs.items() if run.phase is TopicPhase.RUNNING})

    def _missing(self, wanted: Collection[str]) -> set[str]:
        """Those of the topics asked for by name that do not exist when the job starts."""
        return set(wanted) - self._around.admin.topic_ids(wanted).keys()

    def _check_ids(self, running: Mapping[str, TopicRun]) -> None:
        """End the queries of a topic that was deleted or recreated."""
        ids = self._around.admin.topic_ids(running)
        for topic, run in running.items():
            try:
                run.ingest.check_topic(ids.get(topic))
            except LakeError as error:
                self._fail(topic, run, error.message)

    def _start_waiting(self) -> None:
        limit = self._settings.parallel if self._settings.available_now else len(self._runs)
        for topic, run in self._runs.items():
            running = sum(other.phase is TopicPhase.RUNNING for other in self._runs.values())
            if run.phase is TopicPhase.WAITING and run.not_before <= time.monotonic() and running < limit:
                self._start(topic, run)

    def _start(self, topic: str, run: TopicRun) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            if self._leases is not None and not self._leases.acquire(topic):
                run.not_before = time.monotonic() + LEASE_SECONDS / 20
            elif run.ingest.prepare():
                run.queries = run.ingest.start()
                run.seen = {}
                run.phase = TopicPhase.RUNNING
            elif self._settings.available_now:
                logger.info("topic has no record to infer a schema from", topic=topic)
                run.phase = TopicPhase.DONE
            else:
                run.not_before = time.monotonic() + self._settings.discover_interval
        except LakeError as error:
            self._fail(topic, run, error.message)
        except RegistryAway as error:  # is waited for, however long
            run.not_before = time.monotonic() + REGISTRY_SECONDS
            logger.warning(
                "registry is away; waiting", topic=topic, error=str(error), retry_in_seconds=REGISTRY_SECONDS
            )
        except (ClusterError, PySparkException, Py4JJavaError) as error:
            self._try_again(topic, run, reason(error))

    def _watch(self, topic: str, run: TopicRun) -> None:
        if self._leases is not None and (lost := self._leases.lost(topic)) is not None:
            self._fail(topic, run, lost)
            return
        # Asked before the reports are read, so that these include what a query did before it ended.
        ended = not any(query.isActive for query in run.queries)
        for part, query in enumerate(run.queries):
            self._report(topic, run, part, query)
        failed = [error for query in run.queries if (error := query.exception()) is not None]
        if run.ingest.failure is not None:
            self._fail(topic, run, run.ingest.failure.message)
        elif failed and (lost := self._lost(run)) is not None:
            self._fail(topic, run, _data_loss(topic, lost))
        elif failed:
            _end(run)
            self._try_again(topic, run, reason(failed[0]))
        elif ended:
            run.phase = TopicPhase.DONE

    def _lost(self, run: TopicRun) -> str | None:
        if self._settings.allow_data_loss:
            return None
        try:
            return run.ingest.lost()
        except ClusterError:
            return None  # then that is why the query failed; the next attempt tells

    def _report(self, topic: str, run: TopicRun, part: int, query: StreamingQuery) -> None:
        latest = query.lastProgress
        if latest is None:
            return
        before = run.seen.get(part, -1)
        missed = latest.batchId > before + 1
        for progress in query.recentProgress if missed else [latest]:
            if progress.batchId > before and progress.numInputRows:
                run.seen[part] = progress.batchId
                run.attempts = 0
                run.ingest.progressed(part, progress)
                if part == 0:
                    self._reporter.batch(topic, progress)
        if part == 0 and not latest.numInputRows:
            self._reporter.batch(topic, latest)
        if part == 0:
            self._group.reached(topic, end_of(latest, topic))

    def _try_again(self, topic: str, run: TopicRun, error: str) -> None:
        run.attempts += 1
        if run.attempts >= self._settings.attempts:
            self._fail(topic, run, f"topic {topic}: gave up after {run.attempts} attempts: {error}")
            return
        pause = _pause(run.attempts)
        run.phase = TopicPhase.WAITING
        run.not_before = time.monotonic() + pause
        self._reporter.failed(topic, error, pause)

    def _fail(self, topic: str, run: TopicRun, error: str) -> None:
        _end(run)
        run.phase = TopicPhase.FAILED
        run.error = error
        self._reporter.failed(topic, error, None)

    def _over(self) -> bool:
        ended = (TopicPhase.DONE, TopicPhase.FAILED)
        if self._failed_looks:
            return False
        if self._settings.pattern is not None and not self._settings.available_now:
            return False
        return all(run.phase in ended for run in self._runs.values())


def _pause(attempts: int) -> float:
    """Seconds to wait after this many failures in a row."""
    return min(LONGEST_PAUSE_SECONDS, 2.0 ** (attempts - 1))


def _end(run: TopicRun) -> None:
    run.ingest.stop()
    for query in run.queries:
        query.stop()


def _data_loss(topic: str, lost: str) -> str:
    return (
        f"topic {topic}: records that were not read yet are gone from the broker (retention, or DeleteRecords): {lost}"
        ". What is left is read with --allow-data-loss"
    )


def _ingest(around: IngestServices, topic: str) -> Ingest:
    settings = around.settings
    if settings.table_format == PARQUET:
        return ParquetIngest(around, topic)
    upsert = topic in settings.upsert or (settings.upsert_compacted and around.admin.is_compacted(topic))
    return UpsertIngest(around, topic) if upsert else TransactionalIngest(around, topic)


CONCURRENT_FILES = "spark.sql.maxConcurrentOutputFileWriters"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Of records that go to Python at once, which only those of Protobuf do."""


def run(settings: LakeSettings, options: SessionOptions, reporter: Reporter) -> JobOutcome:
    """Run until the job ends or a SIGTERM or SIGINT arrives."""
    wanted = {
        settings.table_format: settings.table_format != PARQUET,
        session.AVRO: settings.has_kind(AVRO),
        session.S3: settings.is_on_s3,
    }
    parts = (session.KAFKA, *(part for part, is_wanted in wanted.items() if is_wanted))
    # Spark would sort a task's rows by date to keep only one file open, even if all rows are of one day.
    conf = {CONCURRENT_FILES: "4", ARROW_BYTES: str(32 << 20)} | dict(options.conf)
    warehouse = settings.path if settings.table_format == ICEBERG and settings.catalog is None else None
    spark = session.build(replace(options, parts=parts, conf=conf, warehouse=warehouse))
    with session.running(spark), _admin(spark, settings) as admin:
        registry = Registry(settings.registry, settings.registry_config) if settings.registry else None
        around = IngestServices(spark, Files(spark), admin, settings, reporter.counted, registry)
        job = LakeJob(around, reporter)
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
