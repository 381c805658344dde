"""Producers whose first append of a transaction is being verified (KIP-890; Kafka's VerificationStateEntry)."""

from __future__ import annotations

KEPT = 1000
"""Producers kept per partition. Those never verified would pile up, so beyond this number the oldest are forgotten."""


class Verifications:
    """The lowest sequence number that each producer has tried since the partition last got a transactional batch of it.

    An append may be refused for a while, as when the coordinator is loading. Until it is retried, a later one must not
    overtake it: in a log that knows nothing of the producer, no sequence number is out of order.
    """

    __slots__ = ("_begun", "_tried")

    def __init__(self) -> None:
        self._begun = 0
        self._tried: dict[int, tuple[int, int, bool, int]] = {}  # by producer id; see `begin`

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._tried

    def begin(self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool) -> int:
        """Note an append that waits for verification, and return its guard; a newer epoch starts afresh.

        `supports_epoch_bump`: the append uses transactions V2. As in Kafka, the first attempt's value counts.
        """
        tried = self._tried
        known = tried.get(producer_id)
        if known is None:
            if len(tried) >= KEPT:
                del tried[next(iter(tried))]
            self._begun = guard = self._begun + 1
            tried[producer_id] = (epoch, sequence, supports_epoch_bump, guard)
            return guard
        guard = known[3]
        if epoch > known[0] or (epoch == known[0] and sequence < known[1]):
            tried[producer_id] = (epoch, sequence, known[2], guard)
        return guard

    def is_guarded(self, producer_id: int, guard: int) -> bool:
        """Whether no marker of the producer has come since its append got this guard (Kafka's VerificationGuard).

        What the coordinator said of the transaction meanwhile is about the transaction that goes on here.
        """
        tried = self._tried.get(producer_id)
        return tried is not None and tried[3] == guard

    def is_out_of_order(self, producer_id: int, sequence: int, has_batches: bool) -> bool:
        """Whether an earlier batch was tried and must come first; with transactions V2, also that of sequence 0.

        `has_batches`: the log has batches of the producer.
        """
        tried = self._tried.get(producer_id)
        if tried is None:
            return False
        _, lowest, supports_epoch_bump, _ = tried
        return sequence > lowest or (supports_epoch_bump and sequence != 0 and not has_batches)

    def end(self, producer_id: int) -> None:
        """Forget the producer's attempts: a transactional batch of it is in the log."""
        self._tried.pop(producer_id, None)

    def end_by_marker(self, producer_id: int, epoch: int) -> None:
        """Forget the producer's attempts: a marker of it is in the log.

        As in Kafka, an append of transactions V2 with the marker's own epoch still counts: there the marker carries the
        next transaction's epoch, so that the append belongs to the transaction that follows.
        """
        tried = self._tried.get(producer_id)
        if tried is not None and not (tried[2] and tried[0] == epoch):
            del self._tried[producer_id]
