"""The reports of a run: Prometheus metrics, log lines, and a bar on a terminal."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from prometheus_client import Counter, Gauge, start_http_server
from tqdm import tqdm

from odradek_pipeline import log_lines
from odradek_pipeline.lake.naming import LakeError

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

logger = structlog.get_logger(__name__)

RECORDS = Counter("odradek_lake_records", "Records taken from the topic, dead letters included", ["topic"])
DEAD = Counter("odradek_lake_dead_letters", "Records that went to the dead-letter table", ["topic"])
UNKNOWN = Counter(
    "odradek_lake_unknown_fields", "Records in the table with fields that the schema does not name", ["topic"]
)
FIELDS = Counter(
    "odradek_lake_unknown_field_records",
    "Records in the table with a field that the schema does not name, for 100 fields of a topic at most",
    ["topic", "field"],
)
BATCHES = Counter("odradek_lake_batches", "Batches in the table", ["topic"])
FAILURES = Counter("odradek_lake_failures", "Times that a topic's query ended with an error", ["topic"])
LAG = Gauge(
    "odradek_lake_lag_offsets", "Offsets between what is in the table and the topic's end", ["topic", "partition"]
)
SECONDS = Gauge("odradek_lake_batch_seconds", "How long the newest batch took", ["topic"])
LATEST = Gauge("odradek_lake_batch_timestamp_seconds", "When the newest batch was in the table", ["topic"])


@dataclass(slots=True)
class TopicProgress:
    """Counts since the start; `unknown`: records with unknown fields, `fields`: with each of these, by name.

    `behind`: the newest batch's lag, in offsets.
    """

    records: int = 0
    dead_letters: int = 0
    unknown: int = 0
    fields: dict[str, int] = field(default_factory=dict)
    behind: int = 0


@dataclass(slots=True)
class Reporter:
    """`counted` is called by Spark's threads, the rest by the job's own."""

    bar: Any = None
    topics: dict[str, TopicProgress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def counted(
        self,
        topic: str,
        records: int,
        dead_letters: int,
        unknown: int,
        fields: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        RECORDS.labels(topic).inc(records)
        DEAD.labels(topic).inc(dead_letters)
        UNKNOWN.labels(topic).inc(unknown)
        with self._lock:
            seen = self.topics.setdefault(topic, TopicProgress())
            seen.records += records
            seen.dead_letters += dead_letters
            seen.unknown += unknown
            for name, number in fields.items():
                FIELDS.labels(topic, name).inc(number)
                seen.fields[name] = seen.fields.get(name, 0) + number
        if dead_letters:
            logger.warning("records went to the dead letters", topic=topic, records=dead_letters)

    def batch(self, topic: str, progress: StreamingQueryProgress) -> None:
        """Note that a batch of the topic is in its table, or that no batch came for a while."""
        lags = lag(progress, topic)
        with self._lock:
            seen = self.topics.setdefault(topic, TopicProgress())
            seen.behind = sum(lags.values())
        for partition, offsets in lags.items():
            LAG.labels(topic, partition).set(offsets)
        if progress.numInputRows:
            seconds = progress.batchDuration / 1000
            BATCHES.labels(topic).inc()
            SECONDS.labels(topic).set(seconds)
            LATEST.labels(topic).set(time.time())
            logger.info(
                "batch", topic=topic, batch=progress.batchId, seconds=seconds, records=seen.records, behind=seen.behind
            )
        self._draw()

    def behind(self, topic: str) -> int | None:
        """How many offsets the table lagged behind after the newest batch; None without one."""
        with self._lock:
            seen = self.topics.get(topic)
            return None if seen is None else seen.behind

    def failed(self, topic: str, error: str, retry_in: float | None) -> None:
        FAILURES.labels(topic).inc()
        logger.error("query failed", topic=topic, error=error, retry_in_seconds=retry_in)

    def close(self) -> None:
        if self.bar is not None:
            self._draw()
            self.bar.close()

    def _draw(self) -> None:
        if self.bar is None:
            return
        with self._lock:
            done = sum(seen.records for seen in self.topics.values())
            behind = sum(seen.behind for seen in self.topics.values())
        self.bar.total = done + behind
        self.bar.n = done
        self.bar.set_postfix(topics=len(self.topics), behind=behind, refresh=False)
        self.bar.refresh()


def lag(progress: StreamingQueryProgress, topic: str) -> dict[str, int]:
    """By partition, the offsets between the batch's end and the topic's end, as far as it may be read."""
    source = progress.sources[0]
    ends = offsets_of(source.endOffset, topic)
    return {
        partition: max(0, end - ends.get(partition, 0))
        for partition, end in offsets_of(source.latestOffset, topic).items()
    }


def end_of(progress: StreamingQueryProgress, topic: str) -> dict[int, int]:
    """By partition, the offset after the last one of the batch."""
    return {int(partition): offset for partition, offset in offsets_of(progress.sources[0].endOffset, topic).items()}


def offsets_of(text: str | None, topic: str) -> dict[str, int]:
    """The offsets by partition; PySpark writes a missing one as the word `None`, and since 4.1 all as Python does."""
    found = ast.literal_eval(text) if text else None
    return dict((found or {}).get(topic, {}))


def serve(port: int) -> None:
    """Serve Prometheus metrics on all interfaces; port 0: the system chooses one, which is logged. Raises LakeError."""
    try:
        server, _ = start_http_server(port)
    except OSError as error:
        raise LakeError(f"--metrics-port {port}: {error}") from None
    logger.info("metrics", port=server.server_port)


def configure(stream: TextIO | None = None) -> Reporter:
    """Set up the log of the process, on standard error by default, and a bar on a terminal."""
    stream = stream or sys.stderr
    terminal = log_lines.configure(stream)
    return Reporter(tqdm(unit=" records", file=stream, dynamic_ncols=True) if terminal else None)
