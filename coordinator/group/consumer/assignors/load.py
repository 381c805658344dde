"""A topic's members by number of partitions: which member gets the next partition, and which gives a partition away.

The two classes are the halves of Kafka's UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer. Members are
numbers, and `sizes` holds each member's number of partitions; whoever moves a partition updates it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


class LeastLoaded:
    """Cycles through the members with the fewest partitions; once each got one, members with as many join them."""

    __slots__ = ("_end", "_members", "_sizes", "_turn", "level")

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        """`members`, at least one, are in ascending order of their number of partitions."""
        self.level = sizes[members[0]] - 1
        """The number of partitions that each member had when this round began."""
        self._members = members
        self._sizes = sizes
        self._end = 0
        self._turn = 0

    def next(self) -> int:
        """The member that gets the next partition."""
        if self._turn == self._end:
            self.level += 1
            while self._end < len(self._members) and self._sizes[self._members[self._end]] == self.level:
                self._end += 1
            self._turn = 0
        self._turn += 1
        return self._members[self._turn - 1]


class MostLoaded:
    """Cycles through the members with the most partitions; once each gave one, members with as many join them."""

    __slots__ = ("_giving", "_others", "_sizes", "_turn", "level")

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        """`members`, at least one, are in ascending order of their number of partitions."""
        self.level = sizes[members[-1]] + 1
        """The number of partitions that each member had when this round began."""
        self._others = list(members)
        self._sizes = sizes
        self._giving: list[int] = []
        self._turn = 0

    def next_owner(self, owned: Mapping[int, Collection[int]]) -> int | None:
        """The member to give the next partition, among those that own any; None if none does."""
        while True:
            if self._turn == len(self._giving):
                self._next_round()
            if not self._giving:
                return None
            member = self._giving[self._turn]
            if owned.get(member):
                self._turn += 1
                return member
            self._exclude()

    def _next_round(self) -> None:
        self.level = self.level - 1 if self._giving or not self._others else self._sizes[self._others[-1]]
        while self._others and self._sizes[self._others[-1]] == self.level:
            self._giving.append(self._others.pop())
        self._turn = 0

    def _exclude(self) -> None:
        """Drop the member whose turn it is; the first of the round takes its place, which affects later rounds."""
        self._giving[self._turn] = self._giving[0]
        del self._giving[0]
