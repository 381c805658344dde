"""The node's states as metrics, each read from its owner when scraped. Names are Kafka's MBeans by the JMX exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.metrics import Metrics

if TYPE_CHECKING:
    from broker.fetch_session import FetchSessionCache
    from broker.partition import Partition
    from broker.partitions import Partitions
    from broker.server import Server
    from timing.purgatory import Purgatory


def register_partitions(metrics: Metrics, partitions: Partitions) -> None:
    """Kafka's `ReplicaManager` and `UnifiedLog` gauges. On one node every partition hosted is led here."""

    def each(read: Callable[[Partition], int]) -> Callable[[], list[tuple[tuple[str, str], float]]]:
        return lambda: [((one.topic, str(one.index)), read(one)) for one in partitions]

    replicas = "kafka_server_replicamanager"
    metrics.gauge(f"{replicas}_partitioncount", "Partitions that this node hosts.", (), lambda: len(partitions))
    metrics.gauge(f"{replicas}_leadercount", "Partitions that this node leads.", (), lambda: len(partitions))
    metrics.gauge(
        f"{replicas}_offlinereplicacount",
        "Partitions whose log failed.",
        (),
        lambda: sum(one.log.is_offline for one in partitions),
    )
    labels = ("topic", "partition")
    metrics.gauge("kafka_log_log_size", "Bytes in the log's segments.", labels, each(lambda one: one.log.size))
    metrics.gauge("kafka_log_log_logstartoffset", "First offset.", labels, each(lambda one: one.log_start_offset))
    metrics.gauge("kafka_log_log_logendoffset", "Next offset.", labels, each(lambda one: one.log_end_offset))
    metrics.gauge("kafka_log_log_numlogsegments", "Segments.", labels, each(lambda one: len(one.log.segments)))


def register_purgatories(metrics: Metrics, purgatories: Iterable[Purgatory]) -> None:
    """Kafka's `DelayedOperationPurgatory` gauges."""
    all_of_them = tuple(purgatories)
    prefix = "kafka_server_delayedoperationpurgatory"
    labels = ("delayedOperation",)
    metrics.gauge(
        f"{prefix}_purgatorysize",
        "Entries in the watch lists: an operation counts once for each key that it watches.",
        labels,
        lambda: [((one.name,), one.watched) for one in all_of_them],
    )
    metrics.gauge(
        f"{prefix}_numdelayedoperations",
        "Operations that wait for their timeout.",
        labels,
        lambda: [((one.name,), one.delayed) for one in all_of_them],
    )


def register_connections(metrics: Metrics, server: Server) -> None:
    """Kafka's `socket-server-metrics`; those by listener are summed over what Kafka calls network processors."""

    def by_listener() -> list[tuple[tuple[str], float]]:
        counts = Counter(connection.listener_name for connection in server.connections)
        return [((listener,), counts[listener]) for listener in server.bound]

    prefix = "kafka_server_socket_server_metrics_connection"
    metrics.gauge(f"{prefix}_count", "Open connections.", ("listener",), by_listener)
    metrics.counter(f"{prefix}_creation_total", "Connections accepted.", (), lambda: server.created)
    metrics.counter(f"{prefix}_close_total", "Connections closed.", (), lambda: server.closed)


def register_fetch_sessions(metrics: Metrics, sessions: FetchSessionCache) -> None:
    """Kafka's `FetchSessionCache` metrics (KIP-227)."""
    prefix = "kafka_server_fetchsessioncache"
    metrics.gauge(f"{prefix}_numincrementalfetchsessions", "Fetch sessions.", (), lambda: len(sessions))
    metrics.gauge(
        f"{prefix}_numincrementalfetchpartitionscached",
        "Partitions in all fetch sessions.",
        (),
        lambda: sessions.partitions,
    )
    metrics.counter(
        f"{prefix}_incrementalfetchsessionevictions_total",
        "Sessions that gave way to others.",
        (),
        lambda: sessions.evictions,
    )
