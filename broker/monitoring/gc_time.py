"""How long collections of garbage have held up the process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from broker.monitoring.metrics import Labelled, Metrics


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
        """The interpreter begins a collection (`start`), or has ended it."""
        if phase == "start":
            self._since_s = self._now_s()
        else:
            self.seconds[info["generation"]] += self._now_s() - self._since_s

    def _by_generation(self) -> Labelled:
        return [((str(generation),), seconds) for generation, seconds in enumerate(self.seconds)]
