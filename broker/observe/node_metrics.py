"""The metrics of a node's parts and of its connections, under the names of Kafka's JMX exporter.

Kafka's quantiles of the times of requests, by the part of the way that they took (`RequestMetrics`), are of the last
half minute, and as exact as the buckets of the histograms. Three of the parts take no time here: a request is handled
in the turn of the loop in which it was read, and an answer is handed to the kernel in the turn in which it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial

from broker.network.server import Server
from broker.observe.metrics import (
    TIME_BOUNDS_MS,
    Labelled,
    Metrics,
    RecentRates,
    RequestCounters,
    Values,
    bound_of,
    bounded,
)
from broker.quotas.limits import QuotaType
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session_cache import FetchSessionCache
from broker.replication.partition import Role
from broker.replication.replica_manager import ReplicaManager
from protocol.api.table import API_BY_NAME
from storage.log.unified_log import UnifiedLog
from storage.shortages import Shortages
from timing.purgatory import Purgatory
from timing.wheel import TimingWheel

REQUESTS = "kafka_network_requestmetrics_"
QUANTILES = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.98": 0.98, "0.99": 0.99, "0.999": 0.999}
MEASURED: Mapping[str, tuple[str, Callable[[RequestCounters], list[int]]]] = {
    "localtimems": ("Milliseconds that the broker was busy with a request", RequestCounters.local_counts),
    "remotetimems": ("Milliseconds that a request waited for data, members or brokers", RequestCounters.remote_counts),
}
NO_TIME = {
    "requestqueuetimems": "Milliseconds from a request read to its handling",
    "responsequeuetimems": "Milliseconds from an answer made to its sending",
    "responsesendtimems": "Milliseconds of handing an answer to the kernel",
}


def register_phases(metrics: Metrics, rates: RecentRates) -> None:
    """Register the metrics for `/metrics`."""
    for name, (documentation, counts) in MEASURED.items():
        recent = rates.of(partial(_counts, metrics, counts))
        metrics.gauge(
            REQUESTS + name,
            f"{documentation}, of the last half minute, as quantiles.",
            ("request", "quantile"),
            partial(_quantiles, recent),
        )
    for name, documentation in NO_TIME.items():
        metrics.gauge(
            REQUESTS + name,
            f"{documentation}: none here, it is the same turn of the event loop.",
            ("request", "quantile"),
            partial(_zeros, metrics),
        )


def _counts(metrics: Metrics, counts: Callable[[RequestCounters], list[int]]) -> dict[tuple[str, ...], float]:
    """How many requests there were of each API in each bucket that is not empty."""
    return {
        (API_BY_NAME[api].kafka_name, str(bucket)): count
        for api, counters in metrics.requests.items()
        for bucket, count in enumerate(counts(counters))
        if count
    }


def _quantiles(recent: Callable[[], Labelled]) -> Labelled:
    by_api: dict[str, list[float]] = {}
    for (api, bucket), rate in recent():
        by_api.setdefault(api, [0.0] * (len(TIME_BOUNDS_MS) + 1))[int(bucket)] = rate
    return [
        ((api, quantile), bound_of(TIME_BOUNDS_MS, counts, share))
        for api, counts in by_api.items()
        for quantile, share in QUANTILES.items()
    ]


def _zeros(metrics: Metrics) -> Labelled:
    answered = [API_BY_NAME[api].kafka_name for api, counters in metrics.requests.items() if counters.by_version]
    if "Fetch" in answered:
        answered += ["FetchConsumer", "FetchFollower"]
    return [((api, quantile), 0) for api in answered for quantile in QUANTILES]


SOCKET_SERVER = "kafka_server_socket_server_metrics_"
SOFTWARE = ("client_software_name", "client_software_version", "listener")


def register_connections(metrics: Metrics, server: Server, rates: RecentRates) -> None:
    """Register the metrics for `/metrics`."""

    def of_each(total: Mapping[str, int]) -> dict[tuple[str, ...], float]:
        return {(name,): total[name] for name in server.bound}

    def counts() -> Labelled:
        found = Counter(connection.listener_name for connection in server.connections)
        return [((name,), found[name]) for name in server.bound]

    def software() -> Labelled:
        found = Counter((*connection.client_software, connection.listener_name) for connection in server.connections)
        return bounded(found.items(), metrics.most.clients, slice(0, 2))

    metrics.gauge(f"{SOCKET_SERVER}connection_count", "Open connections.", ("listener",), counts)
    metrics.gauge(
        f"{SOCKET_SERVER}connections", "Open connections, by what clients say that they are.", SOFTWARE, software
    )
    totals: dict[str, tuple[str, Mapping[str, int]]] = {
        "creation": ("Connections accepted", server.created),
        "close": ("Connections closed", server.closed),
    }
    for name, (documentation, total) in totals.items():
        metrics.counter(
            f"{SOCKET_SERVER}connection_{name}_total",
            f"{documentation}.",
            ("listener",),
            partial(_rows_of, partial(of_each, total)),
        )
        metrics.gauge(
            f"{SOCKET_SERVER}connection_{name}_rate",
            f"{documentation} a second, of late.",
            ("listener",),
            rates.of(partial(of_each, total)),
        )


def _rows_of(values: Callable[[], Mapping[tuple[str, ...], float]]) -> Labelled:
    return values().items()


PARTITION = ("topic", "partition")


def register_gauges(
    metrics: Metrics,
    *,
    partitions: ReplicaManager,
    server: Server,
    wheel: TimingWheel,
    purgatories: Collection[Purgatory],
    coordinators_wait: Callable[[], Mapping[str, int]],
    fetch_sessions: FetchSessionCache,
    throttling: Throttling,
    shortages: Shortages,
    rates: RecentRates,
) -> None:
    """Register the metrics for `/metrics`."""
    _partitions(metrics, partitions)
    register_connections(metrics, server, rates)
    register_phases(metrics, rates)
    _waiting(metrics, wheel, purgatories, coordinators_wait)
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
    """Register metrics that Kafka has and this broker cannot have; dashboards draw them nonetheless."""
    for kind in ("request", "response"):
        name = f"kafka_network_requestchannel_{kind}queuesize"
        metrics.gauge(name, "Always 0: the event loop has no queue between threads.", (), lambda: 0)
    for kind in ("produce", "fetch"):
        name = f"kafka_server_brokertopicmetrics_{kind}messageconversions_total"
        metrics.counter(name, "Always 0: there is one format of records.", (), lambda: 0)


def _waiting(
    metrics: Metrics,
    wheel: TimingWheel,
    purgatories: Collection[Purgatory],
    coordinators_wait: Callable[[], Mapping[str, int]],
) -> None:
    def waiting(count: Callable[[Purgatory], int]) -> Labelled:
        """The operations in purgatories, and what coordinators wait for."""
        own = [((purgatory.name,), count(purgatory)) for purgatory in purgatories]
        return [*own, *(((name,), number) for name, number in coordinators_wait().items())]

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
        lambda: waiting(lambda purgatory: purgatory.watched),
    )
    gauge(
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
        "Operations that wait for their timeout.",
        ("delayedOperation",),
        lambda: waiting(lambda purgatory: purgatory.delayed),
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
