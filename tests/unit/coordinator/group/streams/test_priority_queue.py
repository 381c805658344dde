"""The priority queue gives the lightest element first, and equal ones in the order of Java's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.streams.priority_queue import PriorityQueue


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_the_lightest_comes_first(before: list[int], later: list[int]) -> None:
    queue = PriorityQueue((weight, weight) for weight in before)
    taken = [queue.poll() for _ in range(len(before) // 2)]
    assert taken == sorted(before)[: len(taken)]
    for weight in later:
        queue.add(weight, weight)
    rest = []
    while queue:
        rest.append(queue.poll())
    assert rest == sorted([*sorted(before)[len(taken) :], *later])


def test_equal_elements_come_in_the_order_of_java() -> None:
    """As jshell shows it: the last element takes the place of the first, and the left child comes before the right."""
    queue = PriorityQueue((1, name) for name in "abcde")
    assert [queue.poll() for _ in range(5)] == ["a", "e", "d", "c", "b"]
