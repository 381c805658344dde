"""How far each task of a job is: a compacted topic with a partition per task, whose latest record counts.

Records rather than consumer-group offsets, since those expire (`offsets.retention.minutes`) and rows would come twice.
Here are also the reasons why a replay stops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition


class ReplayRefused(click.ClickException):
    """The job as requested cannot be exact, or contradicts itself; this start wrote nothing. Exit status 1."""


class ReplayFailed(click.ClickException):
    """The job ended before all rows were written; when started again, it goes on from there. Exit status 1."""


class InputChangedError(Exception):
    """A task found other rows than an earlier attempt had written; raised on executors; a retry would find the same."""


MANIFEST_KEY = b"manifest"
PROGRESS_KEY = b"progress"
FETCH_WAIT_MS = 20
"""How long a fetch at a partition's end waits before the end is known."""

SILENCE_SECONDS = 120.0
"""After this long without an answer from the broker, a read ends with an error."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """`rows` of the task were written, in its order, with `size` bytes of keys and values; `done`: it has no more.

    `crc` is the CRC-32 over the digests of these rows: a later attempt must skip the same ones.
    """

    rows: int = 0
    size: int = 0
    crc: int = 0
    done: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        return cls(**json.loads(value))


@dataclass(frozen=True, slots=True)
class JobManifest:
    """The input of a job and how it is read, none of which may change between its starts.

    `tasks` is the number of tasks; `source` and `recipe` are plain JSON objects.
    """

    tasks: int
    source: Mapping[str, Any]
    recipe: Mapping[str, Any]

    def encode(self) -> bytes:
        return json.dumps({"tasks": self.tasks, "source": dict(self.source), "recipe": dict(self.recipe)}).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        return cls(**json.loads(value))

    def differences(self, other: JobManifest) -> list[str]:
        """One line for each difference: the name of the thing, its value here, its value in `other`."""
        mine, theirs = ({"tasks": manifest.tasks, **manifest.source, **manifest.recipe} for manifest in (self, other))
        return [
            f"{name}: {mine.get(name)!r}, now {theirs.get(name)!r}"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]


def topic_of(job: str) -> str:
    return f"__replay-{job}"


def transactional_id(job: str, task: int | None) -> str:
    """The id of a task, or of the job's start (None). Names of jobs contain no colon, so no two ids are the same."""
    return f"replay:{job}:{'start' if task is None else task}"


class ProgressReader:
    """A read_committed reader of partitions of a job's progress topic, from their beginning; a context manager."""

    def __init__(self, client: Mapping[str, Any], job: str, partitions: Sequence[int]) -> None:
        """`client` is librdkafka's configuration, including `bootstrap.servers`."""
        self.manifest: JobManifest | None = None
        self.tasks: dict[int, TaskProgress] = {}
        self._partitions = partitions
        self._consumer = Consumer(
            {
                **client,
                "group.id": transactional_id(job, None),  # required by the library; nothing is committed to it
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )
        # A compacted topic begins at 0, and for "the beginning" librdkafka asks only half a second later.
        self._consumer.assign([TopicPartition(topic_of(job), partition, 0) for partition in partitions])

    def read_to_end(self) -> None:
        """Take in all that is committed now. Raises KafkaException, also after two silent minutes."""
        waiting: set[int | None] = set(self._partitions)
        while waiting:
            message = self._consumer.poll(SILENCE_SECONDS)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the progress topic cannot be read"))
            waiting.discard(self._take_in(message))

    def follow(self, seconds: float) -> None:
        """Take in what arrives within `seconds`. Raises KafkaException."""
        for message in self._consumer.consume(500, seconds):
            self._take_in(message)

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_in(self, message: Message) -> int | None:
        """The partition whose end was reached; None if it goes on."""
        partition, value, error = message.partition(), message.value(), message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            return partition
        if partition is not None and value is not None:
            if message.key() == MANIFEST_KEY:
                self.manifest = JobManifest.decode(value)
            else:
                self.tasks[partition] = TaskProgress.decode(value)
        return None
