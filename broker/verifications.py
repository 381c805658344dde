"""Producers whose first append of a transaction is being verified (KIP-890; Kafka's VerificationStateEntry)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.runtime.outcome import ProducerEpoch

KEPT = 1000
"""Producers of a partition; those never verified would pile up, so beyond these the oldest are forgotten."""


class Verifications:
    """The lowest sequence number that each producer has tried since one partition saw its last transactional batch.

    An append may be refused for a while, as when the coordinator loads: until it is tried again, a later one must not
    get ahead of it, for which no sequence would be out of order in a log that knows nothing of the producer.
    """

    __slots__ = ("_tried",)

    def __init__(self) -> None:
        self._tried: dict[int, tuple[int, int]] = {}  # producer id -> epoch, sequence

    def begin(self, producer: ProducerEpoch, sequence: int) -> None:
        """Notes an append that is to be verified; a newer epoch starts anew."""
        tried = self._tried
        producer_id, epoch = producer
        known = tried.get(producer_id)
        if known is None:
            if len(tried) >= KEPT:
                del tried[next(iter(tried))]
        elif epoch < known[0] or (epoch == known[0] and sequence >= known[1]):
            return
        tried[producer_id] = (epoch, sequence)

    def lowest_sequence(self, producer_id: int) -> int | None:
        """None if nothing is tried."""
        known = self._tried.get(producer_id)
        return None if known is None else known[1]

    def end(self, producer_id: int) -> None:
        """A transactional batch or a marker of the producer is in the log."""
        self._tried.pop(producer_id, None)
