"""The metrics of the process, under the names of Kafka's JMX exporter: idle time, disk, state."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker.monitoring.metrics import Labelled, Metrics
from broker.monitoring.recent_rates import RecentRates

IO = Path("/proc/self/io")
RUNNING, SHUTTING_DOWN, RECOVERY = 3, 7, 2
"""Kafka's `BrokerState`."""


def register_process(
    metrics: Metrics, rates: RecentRates, loop_seconds: Callable[[], float] = time.thread_time
) -> None:
    """Register the metrics for `/metrics`. `loop_seconds` is the CPU time of the calling thread, the loop's."""
    busy = rates.of(lambda: {(): loop_seconds()})

    def idle() -> Labelled:
        return [(labels, min(max(1 - rate, 0), 1)) for labels, rate in busy()]

    for name in (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ):
        metrics.gauge(name, "The part of the time, from 0 to 1, in which the event loop had nothing to do.", (), idle)
    for kind in ("read", "write"):
        metrics.gauge(
            f"kafka_server_kafkaserver_linux_disk_{kind}_bytes",
            f"Bytes that the process made the disk {kind}, since its start.",
            (),
            partial(partial, _disk, f"{kind}_bytes"),
        )


def register_state(metrics: Metrics, not_ready: Callable[[], str | None]) -> None:
    """The state of a broker that has its own metadata; `not_ready` says why it does not serve."""

    def state() -> int:
        reason = not_ready()
        return RUNNING if reason is None else SHUTTING_DOWN if reason == "stopping" else RECOVERY

    metrics.gauge("kafka_server_kafkaserver_brokerstate", "3 running, 7 shutting down, 2 neither.", (), state)


def _disk(field: str) -> Labelled:
    """The field of `/proc/self/io`; nothing where the system has no such file."""
    try:
        lines = IO.read_text().splitlines()
    except OSError:
        return
    yield from (((), float(line.partition(":")[2])) for line in lines if line.startswith(f"{field}:"))
