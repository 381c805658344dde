"""What was tried while it was verified keeps its place, and is forgotten with its partition or its transaction."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from broker.verifications import KEPT, Verifications
from coordinator.runtime.outcome import ProducerEpoch


class Place:
    """Stands for a partition."""


@pytest.fixture
def place() -> Any:
    return Place()


def test_the_lowest_sequence_of_the_newest_epoch_counts(place: Any) -> None:
    tried = Verifications()
    assert tried.lowest_sequence(place, 7) is None
    for epoch, sequence, lowest in ((0, 5, 5), (0, 3, 3), (0, 4, 3), (1, 9, 9), (0, 0, 9), (1, 8, 8)):
        tried.begin(place, ProducerEpoch(7, epoch), sequence)
        assert tried.lowest_sequence(place, 7) == lowest
    assert tried.lowest_sequence(place, 8) is None
    tried.end(place, 7)
    assert tried.lowest_sequence(place, 7) is None


def test_partitions_have_nothing_to_do_with_each_other(place: Any) -> None:
    tried, other = Verifications(), Place()
    tried.begin(place, ProducerEpoch(7, 0), 5)
    tried.end(other, 7)  # type: ignore[arg-type]
    assert tried.lowest_sequence(place, 7) == 5
    assert tried.lowest_sequence(other, 7) is None  # type: ignore[arg-type]


def test_producers_that_are_never_verified_do_not_pile_up(place: Any) -> None:
    tried = Verifications()
    for producer_id in range(KEPT + 3):
        tried.begin(place, ProducerEpoch(producer_id, 0), 0)
    known = [one for one in range(KEPT + 3) if tried.lowest_sequence(place, one) is not None]
    assert known == list(range(3, KEPT + 3))


def test_a_partition_takes_what_is_known_of_it_along() -> None:
    tried, gone = Verifications(), Place()
    tried.begin(gone, ProducerEpoch(7, 0), 5)  # type: ignore[arg-type]
    seen = ref(gone)
    del gone
    gc.collect()
    assert seen() is None
