"""The work of a Spark task of a replay on an executor: fence its predecessor, read its progress, go on after it.

The task's rows go in their order, in transactions that carry the task's progress.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import Producer

from odradek_pipeline.replay.progress import (
    PROGRESS_KEY,
    InputChangedError,
    ProgressReader,
    TaskProgress,
    topic_of,
    transactional_id,
)

DIGEST_BYTES = 8

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """A transaction is committed once it has this many rows, or bytes of keys and values, or this age in seconds."""

    rows: int = 100_000
    size: int = 64 << 20
    seconds: float = 10.0


class Row(NamedTuple):
    """One record to write; `topic` None means the job's topic, `timestamp_ms` None the time of writing."""

    topic: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp_ms: int | None


class Sender(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def send(self, row: Row) -> None:
        """Queue a record; blocks while the queue is full."""

    def commit(self, progress: TaskProgress) -> None:
        """Commit the rows since `begin` and this progress, in one transaction; return once that is done."""


class TaskWriter:
    """Writes what comes after `progress`; everything is in the order of the batches."""

    def __init__(
        self,
        sender: Sender,
        limits: TransactionLimits,
        progress: TaskProgress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` returns seconds."""
        self._sender = sender
        self._limits = limits
        self._clock = clock
        self._before = progress
        self._rows = 0
        self._size = progress.size
        self._crc = 0
        self._open_since: float | None = None
        self._committed = progress

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskProgress:
        """Write all rows of the task except those already done; return its last progress.

        Batches have the columns `topic`?, `key`, `value`, `headers`?, `timestamp_ms`? and `digest` (`pipeline.replay.
        recipe`). Raises InputChangedError if the rows to be skipped are not the ones that were written.
        """
        for batch in batches:
            rest = self._skip(batch)
            if rest.num_rows:
                self._write_batch(rest)
        if self._rows < self._before.rows:
            raise InputChangedError(f"{self._before.rows} rows were written before, and now there are {self._rows}")
        self._commit(done=True)
        return self._committed

    def _skip(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of the batch that has not been written yet."""
        skipped = min(batch.num_rows, self._before.rows - self._rows)
        if skipped <= 0:
            return batch
        self._count(batch, 0, skipped)
        if self._rows == self._before.rows and self._crc != self._before.crc:
            raise InputChangedError(f"the first {self._rows} rows are not the ones that were written before")
        return batch.slice(skipped)

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        counted = 0
        for index, row in enumerate(rows_of(batch), 1):
            if self._open_since is None:
                self._begin()
            self._sender.send(row)
            self._size += len(row.key or b"") + len(row.value or b"")
            if self._is_full(self._rows + index - counted):
                self._count(batch, counted, index)
                counted = index
                self._commit(done=False)
        self._count(batch, counted, batch.num_rows)

    def _is_full(self, rows: int) -> bool:
        committed, limits = self._committed, self._limits
        return (
            rows - committed.rows >= limits.rows
            or self._size - committed.size >= limits.size
            or (self._open_since is not None and self._clock() - self._open_since >= limits.seconds)
        )

    def _begin(self) -> None:
        self._sender.begin()
        self._open_since = self._clock()

    def _commit(self, *, done: bool) -> None:
        if self._open_since is None:
            self._begin()
        progress = TaskProgress(self._rows, self._size, self._crc, done)
        self._sender.commit(progress)
        self._committed = progress
        self._open_since = None

    def _count(self, batch: pa.RecordBatch, start: int, stop: int) -> None:
        """Count rows `start` to `stop` of the batch as done."""
        digests = batch.column("digest")
        begin = digests.offset
        buffer = memoryview(digests.buffers()[1])
        self._crc = zlib.crc32(buffer[(begin + start) * DIGEST_BYTES : (begin + stop) * DIGEST_BYTES], self._crc)
        self._rows += stop - start


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The batch's rows; a column that the batch lacks is None."""
    names = batch.schema.names
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() if name in names else [None] * batch.num_rows for name in Row._fields
    }
    columns["headers"] = [
        headers and [(header["key"], header["value"]) for header in headers] for headers in columns["headers"]
    ]
    return map(Row._make, zip(*columns.values(), strict=True))


RESULT_SCHEMA = "task int, rows long, size long"
TIMEOUT_FACTOR = 6
"""The broker aborts a transaction at this multiple of a task's own age limit, when no task works on it any more."""

QUEUE_KIB = 64 << 10
WAIT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The common settings of all tasks of a job. `client` and `producer` are librdkafka's configuration.

    `topic` None: the rows name theirs.
    """

    job: str
    topic: str | None
    client: Mapping[str, Any]
    producer: Mapping[str, Any]
    limits: TransactionLimits

    @property
    def timeout_ms(self) -> int:
        """`transaction.timeout.ms`"""
        return int(self.limits.seconds * TIMEOUT_FACTOR * 1000)


def open_producer(plan: TaskPlan, task: int | None) -> Producer:
    """A transactional producer that has fenced all earlier ones of this task (None: of the job's start).

    When this returns, whatever they had begun is committed or aborted. Raises KafkaException.
    """
    producer = Producer(
        {
            # A restarted coordinator is found again, however long it was away.
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 1000,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            **plan.client,
            **plan.producer,
            "transactional.id": transactional_id(plan.job, task),
            "transaction.timeout.ms": plan.timeout_ms,
            # Kafka's own choice of a key's partition, so that a key's records meet those of other clients.
            "partitioner": "murmur2_random",
        }
    )
    producer.init_transactions(plan.timeout_ms / 1000)
    return producer


def write_task(plan: TaskPlan, task: int, batches: Iterable[pa.RecordBatch]) -> TaskProgress:
    """Write what is left of the task; return its last progress. Raises KafkaException, InputChangedError.

    A transaction left open by an error is ended by the next attempt, or else by the broker after `timeout_ms`.
    """
    producer = open_producer(plan, task)
    with ProgressReader(plan.client, plan.job, [task]) as reader:
        reader.read_to_end()
        progress = reader.tasks.get(task, TaskProgress())
    if progress.done:
        return progress
    return TaskWriter(_KafkaSender(producer, plan, task), plan.limits, progress).write(batches)


def run_in_spark(plan: TaskPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for `DataFrame.mapInArrow`: one row of RESULT_SCHEMA per task (numbered as its partition)."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("not in a Spark task")
    task = context.partitionId()
    progress = write_task(plan, task, _checked(task, batches))
    yield pa.RecordBatch.from_arrays(
        [pa.array([task], pa.int32()), pa.array([progress.rows], pa.int64()), pa.array([progress.size], pa.int64())],
        names=["task", "rows", "size"],
    )


def _checked(task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches. Raises RuntimeError for rows of another task: Spark's partitions are then not the computed ones."""
    for batch in batches:
        if batch.num_rows and (batch.column("task")[0].as_py(), batch.column("task")[-1].as_py()) != (task, task):
            raise RuntimeError(f"rows of another task came to task {task}")
        yield batch


class _KafkaSender:
    """`pipeline.replay.writer.Sender` with confluent-kafka. Its errors are KafkaException."""

    def __init__(self, producer: Producer, plan: TaskPlan, task: int) -> None:
        self._producer = producer
        self._topic = plan.topic
        self._progress_topic = topic_of(plan.job)
        self._task = task
        self._seconds = plan.timeout_ms / 1000

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, row: Row) -> None:
        topic = row.topic or self._topic
        if topic is None:
            raise ValueError("a row's topic is null")
        # librdkafka takes 0 for the time of writing, and Kafka's clients send no time before 1970.
        timestamp_ms = max(row.timestamp_ms or 0, 0)
        self._produce(topic, row.value, row.key, timestamp=timestamp_ms, headers=row.headers)

    def commit(self, progress: TaskProgress) -> None:
        self._produce(self._progress_topic, progress.encode(), PROGRESS_KEY, self._task)
        self._producer.commit_transaction(self._seconds)

    def _produce(self, *record: Any, **options: Any) -> None:
        """Pass a row to librdkafka; blocks while its queue is full."""
        while True:
            try:
                self._producer.produce(*record, **options)
                return
            except BufferError:
                self._producer.poll(WAIT_SECONDS)
