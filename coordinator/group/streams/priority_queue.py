"""A priority queue whose elements of equal weight come in the same order as those of Java's `PriorityQueue`.

Kafka's assignor takes the process with the least load from such a queue, and many have the same. Python's `heapq` gives
them in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap: the element with the least weight comes first."""

    def __init__(self, elements: Iterable[tuple[float, T]]) -> None:
        """Each element with its weight."""
        self._heap: list[tuple[float, T]] = []
        for weight, element in elements:
            self.add(weight, element)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, weight: float, element: T) -> None:
        """Append the element, and let it rise above all that are heavier."""
        heap = self._heap
        heap.append((weight, element))
        at = len(heap) - 1
        while at > 0 and heap[(at - 1) // 2][0] > weight:
            parent = (at - 1) // 2
            heap[at] = heap[parent]
            at = parent
        heap[at] = weight, element

    def poll(self) -> T:
        """Remove the first element; the last one takes its place, and sinks below all that are lighter."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            at = 0
            while (child := self._lighter_child(at)) is not None and heap[child][0] < last[0]:
                heap[at] = heap[child]
                at = child
            heap[at] = last
        return first[1]

    def _lighter_child(self, at: int) -> int | None:
        """The left one if both weigh the same, None if there is none."""
        left, right = 2 * at + 1, 2 * at + 2
        if left >= len(self._heap):
            return None
        return right if right < len(self._heap) and self._heap[right][0] < self._heap[left][0] else left
