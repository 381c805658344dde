"""What a Spark task of a replay does on an executor: fence its predecessor, read its progress, go on after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from odradek_pipeline.replay.progress import PROGRESS_KEY, Progress, ProgressReader, topic_of, transactional_id
from odradek_pipeline.replay.writer import Limits, Row, TaskWriter

RESULT_SCHEMA = "task int, rows long, size long"
TIMEOUT_FACTOR = 6
"""The broker aborts a transaction at this multiple of a task's own age limit, when no task works on it any more."""

QUEUE_KIB = 64 << 10
WAIT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What is the same for all tasks of a job. `client` and `producer` are librdkafka's configuration.

    `topic` None: the rows name theirs.
    """

    job: str
    topic: str | None
    client: Mapping[str, Any]
    producer: Mapping[str, Any]
    limits: Limits

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


def write_task(plan: TaskPlan, task: int, batches: Iterable[pa.RecordBatch]) -> Progress:
    """Write what is left of the task; return its last progress. Raises KafkaException, InputChangedError.

    A transaction left open by an error is ended by the next attempt, or else by the broker after `timeout_ms`.
    """
    producer = open_producer(plan, task)
    with ProgressReader(plan.client, plan.job, [task]) as reader:
        reader.read_to_end()
        progress = reader.tasks.get(task, Progress())
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

    def commit(self, progress: Progress) -> None:
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
