"""The metrics of a node that is the controller of other nodes, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Iterator

from broker.cluster.metadata_cache import MetadataCache
from broker.monitoring.metrics import Metrics
from controller.quorum.metadata_log import MetadataLog
from metadata.topics import PartitionRegistration


def register_controller_metrics(metrics: Metrics, cache: MetadataCache, log: MetadataLog) -> None:
    """Register the metrics for `/metrics`. Partitions are counted when somebody asks."""

    def partitions() -> Iterator[PartitionRegistration]:
        for topic in cache.image.topics:
            yield from topic.partitions.values()

    gauges = {
        "kafka_controller_kafkacontroller_activecontrollercount": (
            "1: this node is the active controller.",
            lambda: 1,
        ),
        "kafka_controller_kafkacontroller_activebrokercount": (
            "Registered brokers that are not fenced.",
            lambda: sum(not broker.fenced for broker in cache.image.cluster.brokers.values()),
        ),
        "kafka_controller_kafkacontroller_fencedbrokercount": (
            "Registered brokers that are fenced.",
            lambda: sum(broker.fenced for broker in cache.image.cluster.brokers.values()),
        ),
        "kafka_controller_kafkacontroller_globaltopiccount": (
            "Topics of the cluster.",
            lambda: sum(1 for _ in cache.image.topics),
        ),
        "kafka_controller_kafkacontroller_globalpartitioncount": (
            "Partitions of the cluster.",
            lambda: sum(1 for _ in partitions()),
        ),
        "kafka_controller_kafkacontroller_offlinepartitionscount": (
            "Partitions without a leader.",
            lambda: sum(not one.has_leader for one in partitions()),
        ),
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": (
            "Partitions that another replica than the first leads.",
            lambda: sum(one.leader != one.replicas[0] for one in partitions()),
        ),
        "kafka_controller_kafkacontroller_lastcommittedrecordoffset": (
            "The offset of the last record of the metadata log that is durable.",
            lambda: log.durable_end - 1,
        ),
    }
    for name, (documentation, read) in gauges.items():
        metrics.gauge(name, documentation, (), read)
