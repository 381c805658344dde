"""Producers whose first append of a transaction is being verified (KIP-890; Kafka's VerificationStateEntry)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from broker.partition import Partition
    from coordinator.runtime.outcome import ProducerEpoch

KEPT = 1000
"""Producers of a partition; those never verified would pile up, so beyond these the oldest are forgotten."""


class Verifications:
    """The lowest sequence number that each producer has tried since its partition saw its last transactional batch.

    An append may be refused for a while, as when the coordinator loads: until it is tried again, a later one must not
    get ahead of it, for which no sequence would be out of order in a log that knows nothing of the producer.
    """

    def __init__(self) -> None:
        self._tried: WeakKeyDictionary[Partition, dict[int, tuple[int, int]]] = WeakKeyDictionary()

    def begin(self, partition: Partition, producer: ProducerEpoch, sequence: int) -> None:
        """Notes an append that is to be verified; a newer epoch starts anew."""
        tried = self._tried.setdefault(partition, {})
        producer_id, epoch = producer
        known = tried.get(producer_id)
        if known is None and len(tried) >= KEPT:
            del tried[next(iter(tried))]
        if known is None or epoch > known[0] or (epoch == known[0] and sequence < known[1]):
            tried[producer_id] = (epoch, sequence)

    def lowest_sequence(self, partition: Partition, producer_id: int) -> int | None:
        """None if nothing is tried."""
        tried = self._tried.get(partition)
        known = None if tried is None else tried.get(producer_id)
        return None if known is None else known[1]

    def end(self, partition: Partition, producer_id: int) -> None:
        """A transactional batch or a marker of the producer is in the log."""
        tried = self._tried.get(partition)
        if tried is not None:
            tried.pop(producer_id, None)
