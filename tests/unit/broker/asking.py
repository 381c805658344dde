"""Requests of a test to a node in a few words, and what of the answers tests look at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.create_topics.v7.request import CreatableTopic

from tests.unit.broker.rig import Client
from tests.unit.broker.wire import batch, produce

SECOND = timedelta(seconds=1)


def creation(name: str, partitions: int) -> dict[str, Any]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    return {"topics": (topic,), "timeout": SECOND, "validate_only": False}


async def create(client: Client, name: str, partitions: int) -> str:
    """The name of the error, like `append`'s."""
    (topic,) = (await client.ask("create_topics", 7, **creation(name, partitions))).topics
    return str(topic.error_code.name)


async def append(client: Client, topic: str, index: int) -> str:
    done = await client.ask("produce", 9, **produce(topic, {index: batch(b"a")}))
    return str(done.responses[0].partition_responses[0].error_code.name)


async def log_dirs(client: Client) -> Any:
    """By folder: the error, the size of its file system, and the partitions in it."""
    done = await client.ask("describe_log_dirs", 4, topics=None)
    return {
        one.log_dir: (
            one.error_code.name,
            one.total_bytes,
            {(topic.name, part.partition_index) for topic in one.topics for part in topic.partitions},
        )
        for one in done.results
    }
