"""The order of a member's partitions in answers; the lists are from groups of two and three members of a Kafka 4.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.consumer.assignment import as_computed, as_stored
from protocol.java_collections import in_java_copy_order, in_java_order, java_copy_capacity

NOTHING: frozenset[int] = frozenset()


def numbers(*ranges: tuple[int, int]) -> list[int]:
    """Both ends included."""
    return [number for first, last in ranges for number in range(first, last + 1)]


@pytest.mark.parametrize(
    "before, now",
    [
        ([], numbers((0, 39))),
        (numbers((0, 39)), numbers((0, 19))),
        ([], numbers((16, 23), (12, 15))),
        ([], numbers((32, 39), (20, 31))),
        (numbers((20, 39)), numbers((32, 39), (20, 24))),
        (numbers((20, 39)), numbers((20, 26))),
        (numbers((20, 26)), numbers((14, 26))),
        ([], numbers((32, 39), (27, 31))),
    ],
)
def test_what_was_just_computed(before: list[int], now: list[int]) -> None:
    assert list(as_computed(frozenset(now), frozenset(before))) == now


@pytest.mark.parametrize(
    "stored", [[16, 17, 15], numbers((12, 23)), numbers((32, 39), (20, 24)), numbers((14, 19), (25, 31)), [0, 16]]
)
def test_what_a_record_says(stored: list[int]) -> None:
    assert list(as_stored(frozenset(stored))) == stored


def test_a_set_that_shrank_keeps_the_buckets_that_it_had() -> None:
    assert list(as_computed(frozenset({1, 16}), frozenset(range(30)))) == [1, 16]
    assert list(as_computed(frozenset({1, 16}), NOTHING)) == [16, 1]


@given(st.frozensets(st.integers(0, 200)), st.frozensets(st.integers(0, 200)))
def test_where_each_has_a_bucket_of_its_own_nothing_is_different(now: frozenset[int], before: frozenset[int]) -> None:
    kept = now & before
    added = [*sorted(kept), *sorted(now - kept)]
    assert list(as_computed(now, before)) == in_java_order(added, java_copy_capacity(len(before)) if kept else 16)
    assert list(as_stored(now)) == in_java_copy_order(sorted(now))
