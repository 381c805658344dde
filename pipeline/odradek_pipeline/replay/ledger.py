"""A job's start on the broker: its progress topic, and the manifest that later starts must agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from odradek_pipeline.replay.progress import (
    MANIFEST_KEY,
    JobManifest,
    ProgressReader,
    ReplayRefused,
    TaskProgress,
    topic_of,
)
from odradek_pipeline.replay.writer import TaskPlan, open_producer

ADMIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StoredJob:
    """The state of a job in the broker: its manifest (None: it never began) and its tasks' progress.

    `partitions` is that of the progress topic; 0 if there is none.
    """

    partitions: int = 0
    manifest: JobManifest | None = None
    tasks: Mapping[int, TaskProgress] = field(default_factory=dict)

    @property
    def done(self) -> list[int]:
        return [task for task, progress in self.tasks.items() if progress.done]

    @property
    def rows(self) -> int:
        return sum(progress.rows for progress in self.tasks.values())

    @property
    def size(self) -> int:
        return sum(progress.size for progress in self.tasks.values())


def require_topic(plan: TaskPlan, topic: str) -> None:
    """Raises ReplayRefused if the topic does not exist, KafkaException."""
    found = AdminClient(dict(plan.client)).list_topics(timeout=ADMIN_SECONDS).topics
    if topic not in found:
        raise ReplayRefused(f"topic {topic} does not exist: create it, or have it created with --partitions N")


def look(plan: TaskPlan) -> StoredJob:
    """Raises KafkaException."""
    topics = AdminClient(dict(plan.client)).list_topics(timeout=ADMIN_SECONDS).topics
    topic = topics.get(topic_of(plan.job))
    if topic is None:
        return StoredJob()
    partitions = len(topic.partitions)
    with ProgressReader(plan.client, plan.job, range(partitions)) as reader:
        reader.read_to_end()
        return StoredJob(partitions, reader.manifest, dict(reader.tasks))


def begin(plan: TaskPlan, manifest: JobManifest) -> StoredJob:
    """Begin the job, or resume it. Raises ReplayRefused if it began with another manifest, KafkaException."""
    topic = topic_of(plan.job)
    create_topic(plan, topic, manifest.tasks, {"cleanup.policy": "compact"})
    # If two first starts happen at once, the later one fences the other, which then cannot commit its manifest.
    producer = open_producer(plan, None)
    begun = look(plan)
    if begun.partitions != manifest.tasks:
        raise ReplayRefused(
            f"job {plan.job!r} has {begun.partitions} tasks, not {manifest.tasks}: leave --tasks away, "
            f"or name another --job (to forget this one, delete the topic {topic})"
        )
    if begun.manifest is None:
        producer.begin_transaction()
        producer.produce(topic, manifest.encode(), MANIFEST_KEY, 0)
        producer.commit_transaction(plan.timeout_ms / 1000)
        return StoredJob(begun.partitions, manifest)
    differences = begun.manifest.differences(manifest)
    if differences:
        raise ReplayRefused(
            f"job {plan.job!r} began with something else and cannot go on exactly:\n  "
            + "\n  ".join(differences)
            + f"\nname another --job (to forget this one, delete the topic {topic})"
        )
    return begun


def create_topic(plan: TaskPlan, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create the topic, unless one of that name exists, whatever its configuration. Raises KafkaException."""
    admin = AdminClient(dict(plan.client))  # kept in a variable, as the future below dies with it
    new = NewTopic(name, partitions, replication_factor=-1, config=dict(config))
    try:
        admin.create_topics([new], operation_timeout=ADMIN_SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
