"""What was tried while it was verified keeps its place, and is forgotten with its transaction."""

from __future__ import annotations

from broker.verifications import KEPT, Verifications
from coordinator.runtime.outcome import ProducerEpoch


def test_the_lowest_sequence_of_the_newest_epoch_counts() -> None:
    tried = Verifications()
    assert tried.lowest_sequence(7) is None
    for epoch, sequence, lowest in ((0, 5, 5), (0, 3, 3), (0, 4, 3), (1, 9, 9), (0, 0, 9), (1, 8, 8)):
        tried.begin(ProducerEpoch(7, epoch), sequence)
        assert tried.lowest_sequence(7) == lowest
    assert tried.lowest_sequence(8) is None
    tried.end(7)
    assert tried.lowest_sequence(7) is None


def test_producers_that_are_never_verified_do_not_pile_up() -> None:
    tried = Verifications()
    for producer_id in range(KEPT + 3):
        tried.begin(ProducerEpoch(producer_id, 0), 0)
    known = [one for one in range(KEPT + 3) if tried.lowest_sequence(one) is not None]
    assert known == list(range(3, KEPT + 3))
