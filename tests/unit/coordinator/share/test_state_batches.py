"""State batches, merged: as if every offset were kept by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.share.share_coordinator_shard import merge
from protocol.coordinator_records.share_records import StateBatch

BATCHES = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size, state, count),
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(0, 2),
)


def by_offset(batches: tuple[StateBatch, ...]) -> dict[int, tuple[int, int]]:
    """(deliveries, state) of every offset."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(batch.first, batch.last + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (batch.delivery_count, batch.state))
    return found


@pytest.mark.long
@given(st.lists(st.lists(BATCHES, max_size=5), max_size=5), st.integers(0, 20))
def test_the_highest_delivery_count_wins_and_then_the_highest_state(writes: list[list[StateBatch]], start: int) -> None:
    merged: tuple[StateBatch, ...] = ()
    for news in writes:
        merged = merge(merged, news, start)
    everything = by_offset(tuple(batch for news in writes for batch in news))
    assert by_offset(merged) == {offset: value for offset, value in everything.items() if offset >= start}
    for one, another in pairwise(merged):
        assert one.last < another.first
        assert one.last + 1 < another.first or one[2:] != another[2:], "equal neighbours are joined"


def test_a_batch_that_ends_before_it_begins_is_left_out() -> None:
    assert merge((), [StateBatch(5, 4, 2, 1)], 0) == ()
