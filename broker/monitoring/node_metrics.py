"""The metrics of a node's parts, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.monitoring.metrics import Values
from broker.quotas.entities import QuotaType

if TYPE_CHECKING:
    from broker.node import Node
    from storage.log.partition_log import PartitionLog

PARTITION = ("topic", "partition")


def register_gauges(node: Node) -> None:
    """Register the metrics for `/metrics`."""
    _partitions(node)
    _connections(node)
    _waiting(node)
    _fetch_sessions(node)
    _throttled(node)


def _partitions(node: Node) -> None:
    gauge = node.metrics.gauge
    logs: dict[str, tuple[str, Callable[[PartitionLog], int]]] = {
        "kafka_log_log_size": ("Bytes of the partition's log.", lambda log: log.size),
        "kafka_log_log_logendoffset": ("The next offset to be given out.", lambda log: log.log_end_offset),
        "kafka_log_log_logstartoffset": ("The first offset that can be read.", lambda log: log.log_start_offset),
        "kafka_log_log_numlogsegments": ("Segments of the partition's log.", lambda log: len(log.segments)),
    }
    for name, (documentation, read) in logs.items():
        gauge(
            name,
            documentation,
            PARTITION,
            partial(_of_each_log, node, read),
        )
    gauge("kafka_server_replicamanager_partitioncount", "Partitions on this node.", (), lambda: len(node.partitions))
    gauge(
        "kafka_server_replicamanager_leadercount",
        "Partitions that this node leads.",
        (),
        lambda: sum(not one.log.is_offline for one in node.partitions),
    )
    gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions whose log is offline after a disk error.",
        (),
        lambda: sum(one.log.is_offline for one in node.partitions),
    )


def _of_each_log(node: Node, read: Callable[[PartitionLog], int]) -> Values:
    return [((one.topic, str(one.index)), read(one.log)) for one in node.partitions]


def _connections(node: Node) -> None:
    server, metrics = node.server, node.metrics
    metrics.gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        (),
        lambda: len(server.connections),
    )
    metrics.counter(
        "kafka_server_socket_server_metrics_connection_creation_total",
        "Connections accepted.",
        (),
        lambda: server.created,
    )
    metrics.counter(
        "kafka_server_socket_server_metrics_connection_close_total", "Connections closed.", (), lambda: server.closed
    )


def _waiting(node: Node) -> None:
    gauge = node.metrics.gauge
    groups = node.group_coordinator
    purgatories = (node.fetch_purgatory, node.delayed_produce.purgatory, groups.rebalances, groups.heartbeats)
    gauge(
        "odradek_timers",
        "Timers that run, of waiting operations, idle connections and sessions.",
        (),
        lambda: len(node.wheel),
    )
    gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Entries in the watch lists of waiting operations.",
        ("delayedOperation",),
        lambda: [((one.name,), one.watched) for one in purgatories],
    )
    gauge(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Operations that wait for their timeout.",
        ("delayedOperation",),
        lambda: [((one.name,), one.delayed) for one in purgatories],
    )


def _fetch_sessions(node: Node) -> None:
    gauge, sessions = node.metrics.gauge, node.fetch_sessions
    gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Incremental fetch sessions.",
        (),
        lambda: len(sessions),
    )
    gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in incremental fetch sessions.",
        (),
        lambda: sessions.partitions,
    )
    node.metrics.counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        "Sessions that gave way to others.",
        (),
        lambda: sessions.evictions,
    )


def _throttled(node: Node) -> None:
    for quota_type in QuotaType:
        node.metrics.gauge(
            f"kafka_server_{quota_type.lower()}_throttle_time",
            "Milliseconds for which a client was held back lately, on average of the times that it was.",
            ("user", "client_id"),
            partial(node.throttling.throttle_times, quota_type),
        )
