"""The metrics of the process, under the names of Kafka's JMX exporter: idle time, disk, state.

`LoopLag` measures how late the event loop serves its timers, which shows when some work blocks it; `GcTime`, how long
collections of garbage have held up the process.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker.observe.metrics import Histogram, Labelled, Metrics, RecentRates
from timing.clock import Clock, Timer

PERIOD_MS = 500.0


class LoopLag:
    """Sets a timer every half second, and notes in seconds how late it fires."""

    def __init__(self, clock: Clock, lag_s: Histogram) -> None:
        self._clock = clock
        self._lag_s = lag_s
        self._due_ms = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._due_ms = self._clock.monotonic_ms() + PERIOD_MS
        self._timer = self._clock.call_later(PERIOD_MS, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        self._lag_s.observe(max(self._clock.monotonic_ms() - self._due_ms, 0.0) / 1000.0)
        self.start()


class GcTime:
    """Seconds by generation. One for a process: `begin` registers it with the interpreter for good."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._since_s = 0.0
        self.seconds = [0.0] * len(gc.get_count())

    def begin(self, metrics: Metrics) -> None:
        gc.callbacks.append(self.collection)
        metrics.counter(
            "odradek_gc_seconds_total",
            "Time in which collections of garbage held up the process.",
            ("generation",),
            self._by_generation,
            permanent=True,
        )

    def collection(self, phase: str, info: dict[str, int]) -> None:
        """Note that the interpreter begins a collection (`start`), or has ended it."""
        if phase == "start":
            self._since_s = self._now_s()
        else:
            self.seconds[info["generation"]] += self._now_s() - self._since_s

    def _by_generation(self) -> Labelled:
        return [((str(generation),), seconds) for generation, seconds in enumerate(self.seconds)]


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
    """Register the state of a broker that has its own metadata; `not_ready` says why it does not serve."""

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
