"""The metrics of a node's parts, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from broker.monitoring.cardinality import bounded
from broker.monitoring.connection_metrics import register_connections
from broker.monitoring.metrics import Labelled, Metrics, Values
from broker.monitoring.recent_rates import RecentRates
from broker.monitoring.request_phases import register_phases
from broker.network.server import Server
from broker.quotas.entities import QuotaType
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session import FetchSessionCache
from broker.replication.partition import Role
from broker.replication.replica_manager import ReplicaManager
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from timing.purgatory import Purgatory
from timing.wheel import TimingWheel

PARTITION = ("topic", "partition")


def register_gauges(
    metrics: Metrics,
    *,
    partitions: ReplicaManager,
    server: Server,
    wheel: TimingWheel,
    purgatories: Collection[Purgatory],
    fetch_sessions: FetchSessionCache,
    throttling: Throttling,
    shortages: Shortages,
    rates: RecentRates,
) -> None:
    """Register the metrics for `/metrics`."""
    _partitions(metrics, partitions)
    register_connections(metrics, server, rates)
    register_phases(metrics, rates)
    _waiting(metrics, wheel, purgatories)
    _fetch_sessions(metrics, fetch_sessions)
    _throttled(metrics, throttling)
    _constants(metrics)
    metrics.gauge(
        "odradek_out_of_resources",
        "What fails now for lack of room or file descriptors: a folder of log.dirs, or the process, and the cause.",
        ("place", "cause"),
        lambda: [((shortage.place, shortage.cause), 1) for shortage in shortages.all()],
    )


def _partitions(metrics: Metrics, partitions: ReplicaManager) -> None:
    gauge = metrics.gauge
    logs: dict[str, tuple[str, Callable[[UnifiedLog], int]]] = {
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
            partial(_of_each_log, metrics, partitions, read),
        )
    gauge("kafka_server_replicamanager_partitioncount", "Partitions on this node.", (), lambda: len(partitions))
    gauge(
        "kafka_server_replicamanager_leadercount",
        "Partitions that this node leads.",
        (),
        lambda: sum(partition.role is Role.LEADER for partition in partitions),
    )
    gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions whose log is offline after a disk error.",
        (),
        lambda: sum(partition.role is Role.OFFLINE for partition in partitions),
    )


def _of_each_log(metrics: Metrics, partitions: ReplicaManager, read: Callable[[UnifiedLog], int]) -> Values:
    rows = [((partition.topic, str(partition.index)), read(partition.log)) for partition in partitions]
    return lambda: bounded(rows, metrics.most.topics)


def _constants(metrics: Metrics) -> None:
    """What Kafka has and this broker cannot have; dashboards draw it nonetheless."""
    for kind in ("request", "response"):
        name = f"kafka_network_requestchannel_{kind}queuesize"
        metrics.gauge(name, "Always 0: the event loop has no queue between threads.", (), lambda: 0)
    for kind in ("produce", "fetch"):
        name = f"kafka_server_brokertopicmetrics_{kind}messageconversions_total"
        metrics.counter(name, "Always 0: there is one format of records.", (), lambda: 0)


def _waiting(metrics: Metrics, wheel: TimingWheel, purgatories: Collection[Purgatory]) -> None:
    gauge = metrics.gauge
    gauge(
        "odradek_timers",
        "Timers that run, of waiting operations, idle connections and sessions.",
        (),
        lambda: len(wheel),
    )
    gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Entries in the watch lists of waiting operations.",
        ("delayedOperation",),
        lambda: [((purgatory.name,), purgatory.watched) for purgatory in purgatories],
    )
    gauge(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Operations that wait for their timeout.",
        ("delayedOperation",),
        lambda: [((purgatory.name,), purgatory.delayed) for purgatory in purgatories],
    )


def _fetch_sessions(metrics: Metrics, sessions: FetchSessionCache) -> None:
    gauge = metrics.gauge
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
    metrics.counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        "Sessions that gave way to others.",
        (),
        lambda: sessions.evictions,
    )


def _throttled(metrics: Metrics, throttling: Throttling) -> None:
    for quota_type in QuotaType:
        metrics.gauge(
            f"kafka_server_{quota_type.lower()}_throttle_time",
            "Milliseconds for which a client was held back lately, on average of the times that it was.",
            ("user", "client_id"),
            partial(_throttle_times, metrics, throttling, quota_type),
        )


def _throttle_times(metrics: Metrics, throttling: Throttling, quota_type: QuotaType) -> Labelled:
    return bounded(throttling.throttle_times(quota_type), metrics.most.clients, slice(0, 2))
