"""The name of a partition, as a class and as a bare tuple."""

from __future__ import annotations

from typing import NamedTuple

PartitionKey = tuple[str, int]
"""(topic, partition index): a `TopicPartition` or a bare tuple, which is made in a fraction of the time.

Coordinators and handlers make bare ones, for every partition of every request.
"""


class TopicPartition(NamedTuple):
    """Kafka's TopicPartition; as text `topic-partition`, which is also the name of its folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
