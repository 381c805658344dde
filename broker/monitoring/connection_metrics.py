"""The metrics of connections, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from broker.monitoring.cardinality import bounded
from broker.monitoring.metrics import Labelled, Metrics
from broker.monitoring.recent_rates import RecentRates
from broker.network.server import Server

GROUP = "kafka_server_socket_server_metrics_"
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

    metrics.gauge(f"{GROUP}connection_count", "Open connections.", ("listener",), counts)
    metrics.gauge(f"{GROUP}connections", "Open connections, by what clients say that they are.", SOFTWARE, software)
    totals: dict[str, tuple[str, Mapping[str, int]]] = {
        "creation": ("Connections accepted", server.created),
        "close": ("Connections closed", server.closed),
    }
    for name, (documentation, total) in totals.items():
        metrics.counter(
            f"{GROUP}connection_{name}_total",
            f"{documentation}.",
            ("listener",),
            partial(_rows_of, partial(of_each, total)),
        )
        metrics.gauge(
            f"{GROUP}connection_{name}_rate",
            f"{documentation} a second, of late.",
            ("listener",),
            rates.of(partial(of_each, total)),
        )


def _rows_of(values: Callable[[], Mapping[tuple[str, ...], float]]) -> Labelled:
    return values().items()
