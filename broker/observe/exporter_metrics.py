"""Topics and brokers under the names of kafka_exporter, which asks a cluster over Kafka's protocol.

kafka_exporter runs once for a cluster, while each broker has these metrics. So a partition is reported by its leader
alone, and the size of a topic by the leader of its first partition: sums over all brokers are right then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from broker.membership.metadata_cache import MetadataCache
from broker.observe.metrics import Labelled, Metrics, bounded
from broker.replication.partition import Role
from broker.replication.replica_manager import ReplicaManager

GROUP = "kafka_topic_partition"
PARTITION = ("topic", "partition")
PARTITIONS_A_STEP = 500


@dataclass(frozen=True, slots=True)
class Led:
    """A partition that this node leads."""

    topic: str
    index: int
    current_offset: int
    oldest_offset: int
    replicas: int
    in_sync_replica: int
    leader_is_preferred: int
    partitions: int

    @property
    def under_replicated_partition(self) -> int:
        return int(self.in_sync_replica < self.replicas)


def register_exporter_metrics(
    metrics: Metrics, node_id: int, cache: MetadataCache, replicas: ReplicaManager, address: Callable[[], str]
) -> None:
    """Register the metrics for `/metrics`; `address` is where clients reach this broker."""
    led = _Led(node_id, cache, replicas)
    metrics.walks.append(led.walk)

    def each(name: str, documentation: str, read: Callable[[Led], int]) -> None:
        metrics.gauge(f"{GROUP}_{name}", documentation, PARTITION, lambda: led.rows(read, metrics.most.topics))

    each(
        "current_offset",
        "The offset after the last record that consumers can read.",
        lambda numbers: numbers.current_offset,
    )
    each("oldest_offset", "The first offset that can be read.", lambda numbers: numbers.oldest_offset)
    each("replicas", "Replicas of the partition.", lambda numbers: numbers.replicas)
    each("in_sync_replica", "In-sync replicas of the partition.", lambda numbers: numbers.in_sync_replica)
    each("leader_is_preferred", "Whether the first replica leads.", lambda numbers: numbers.leader_is_preferred)
    each(
        "under_replicated_partition",
        "Whether in-sync replicas are lacking.",
        lambda numbers: numbers.under_replicated_partition,
    )
    metrics.gauge(
        "kafka_topic_partitions", "Partitions of the topic.", ("topic",), lambda: led.topics(metrics.most.topics)
    )
    metrics.gauge("kafka_brokers", "Registered brokers.", (), lambda: len(cache.image.cluster.brokers))
    metrics.gauge("kafka_broker_info", "This broker.", ("id", "address"), lambda: [((str(node_id), address()), 1)])


class _Led:
    """The led partitions as of the last walk, which gives the loop a turn after some."""

    def __init__(self, node_id: int, cache: MetadataCache, replicas: ReplicaManager) -> None:
        self._node_id = node_id
        self._cache = cache
        self._replicas = replicas
        self._rows: list[Led] = []

    def walk(self) -> Iterator[None]:
        rows: list[Led] = []
        for number, partition in enumerate(list(self._replicas)):
            topic = self._cache.topic(partition.topic)
            if partition.role is Role.LEADER and topic is not None and partition.index in topic.partitions:
                known = topic.partitions[partition.index]
                rows.append(
                    Led(
                        partition.topic,
                        partition.index,
                        partition.high_watermark,
                        partition.log_start_offset,
                        len(known.replicas),
                        len(known.isr),
                        int(known.replicas[0] == self._node_id),
                        topic.partition_count,
                    )
                )
            if number % PARTITIONS_A_STEP == PARTITIONS_A_STEP - 1:
                yield
        self._rows = rows

    def rows(self, read: Callable[[Led], int], most: int) -> Callable[[], Labelled]:
        """The values, to be read in any thread."""
        return partial(_rows, self._rows, read, most)

    def topics(self, most: int) -> Labelled:
        return bounded([((row.topic,), row.partitions) for row in self._rows if row.index == 0], most)


def _rows(rows: list[Led], read: Callable[[Led], int], most: int) -> Labelled:
    return bounded((((row.topic, str(row.index)), read(row)) for row in rows), most)
