"""How large partitions are at the brokers that have them, as these say themselves (DescribeLogDirs)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest

from broker.console.ask import Ask
from broker.console.own_client import ask_at
from broker.testkit.control.endpoint import ControlError
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey, by_topic

Sizes = Mapping[tuple[int, PartitionKey], int]
"""Bytes by broker and partition; what a broker does not tell is left out."""


async def sizes_at(ask: Ask, wanted: Iterable[tuple[int, PartitionKey]]) -> Sizes:
    """The sizes of replicas: each broker is asked for its own."""
    at: dict[int, list[PartitionKey]] = {}
    for broker, key in wanted:
        at.setdefault(broker, []).append(key)
    told = await asyncio.gather(*(_sizes_at(ask, broker, keys) for broker, keys in at.items()))
    return {(broker, key): size for broker, of in zip(at, told, strict=True) for key, size in of.items()}


async def _sizes_at(ask: Ask, broker: int, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int]:
    topics = tuple(
        DescribableLogDirTopic(topic=name, partitions=tuple(indexes)) for name, indexes in by_topic(keys).items()
    )
    try:
        answer = await ask_at(ask, broker, DescribeLogDirsRequest(topics=topics))
    except (ControlError, KafkaError):
        return {}
    return {
        (topic.name, one.partition_index): one.partition_size
        for folder in answer.results
        for topic in folder.topics
        for one in topic.partitions
        if not one.is_future_key
    }
