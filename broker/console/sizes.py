"""How large partitions are at the brokers that have them, as these say themselves (DescribeLogDirs)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest

from broker.console.ask import Ask
from broker.console.own_client import answers_of, by_broker
from protocol.topic_partition import PartitionKey, by_topic

Sizes = Mapping[tuple[int, PartitionKey], int]
"""Bytes by broker and partition; what a broker does not tell is left out."""


async def sizes_at(ask: Ask, wanted: Iterable[tuple[int, PartitionKey]]) -> Sizes:
    """The sizes of replicas: each broker is asked for its own."""
    at = by_broker(wanted)
    told = await answers_of(ask, [(broker, _request(keys)) for broker, keys in at.items()])
    return {
        (broker, (topic.name, one.partition_index)): one.partition_size
        for broker, answer in zip(at, told, strict=True)
        if answer is not None
        for folder in answer.results
        for topic in folder.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def _request(keys: Sequence[PartitionKey]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(topic=name, partitions=tuple(indexes)) for name, indexes in by_topic(keys).items()
        )
    )
