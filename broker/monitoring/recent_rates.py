"""Rates of the last half minute, for metrics that Kafka gives as rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from broker.monitoring.metrics import Labelled

NOTE_MS = 5_000.0
NOTES = 6

Totals = Callable[[], Mapping[tuple[str, ...], float]]


class RecentRates:
    """Notes totals from time to time (`note`, every `NOTE_MS`), and compares them with what they are when asked."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._noted: list[tuple[Totals, deque[tuple[float, Mapping[tuple[str, ...], float]]]]] = []

    def of(self, totals: Totals) -> Callable[[], Labelled]:
        """A reading of the rates of these totals, by their labels."""
        notes = deque([(self._monotonic_ms(), totals())], NOTES)
        self._noted.append((totals, notes))

        def rates() -> Labelled:
            since_ms, before = notes[0]
            seconds = max(self._monotonic_ms() - since_ms, 1.0) / 1000
            return [(labels, (value - before.get(labels, 0)) / seconds) for labels, value in totals().items()]

        return rates

    async def note(self) -> None:
        """Note all totals as they are now."""
        for totals, notes in self._noted:
            notes.append((self._monotonic_ms(), totals()))
