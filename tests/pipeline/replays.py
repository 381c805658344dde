"""Inputs of replays, and what a read_committed consumer finds of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek_pipeline.replay.job import Replay
from odradek_pipeline.replay.recipe import Recipe
from odradek_pipeline.replay.source import Source
from odradek_pipeline.replay.writer import TransactionLimits

SECONDS = 60.0


def committed(bootstrap: str, topic: str) -> list[Message]:
    """All committed records, those of a partition in its order."""
    partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=SECONDS).topics[topic].partitions
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    waiting = set(partitions)
    try:
        while waiting:
            message = consumer.poll(SECONDS)
            assert message is not None, f"partitions {waiting} of {topic} cannot be read to their ends"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(message.partition())
    finally:
        consumer.close()
    return found


def by_key(messages: Sequence[Message]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key; a key's records must all be in one partition."""
    values = defaultdict(list)
    partitions = defaultdict(set)
    for message in messages:
        values[message.key()].append(message.value())
        partitions[message.key()].add(message.partition())
    scattered = [key for key, found in partitions.items() if key is not None and len(found) > 1]
    assert not scattered, scattered
    return dict(values)


def job(bootstrap: str, name: str, source: Source, *, rows: int = 100, **recipe: Any) -> Replay:
    """A job of three tasks that writes to a topic of its name, in transactions of so many rows."""
    return Replay(
        job=name,
        source=source,
        recipe=Recipe(**{"topic": name, "key_column": "k", **recipe}),
        client={"bootstrap.servers": bootstrap},
        tasks=3,
        partitions=3,
        limits=TransactionLimits(rows=rows),
    )


def expected(rows: Sequence[Mapping[str, Any]]) -> dict[bytes, list[bytes]]:
    """What `by_key` finds of rows {k, n, v} with `v` as the value, ordered by `n`."""
    values: dict[bytes, list[bytes]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["n"]):
        values[row["k"].encode()].append(row["v"].encode())
    return dict(values)
