"""Which assignor a group uses: the one that most of its members ask for.

In a tie Kafka takes the first in a map, whose order is fixed: "uniform" comes before "range", and before both an
assignor that only the current request asks for.
"""

from __future__ import annotations

from collections import Counter

from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember


def preferred_assignor(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember) -> str | None:
    """The assignor to use after a request that turns `before` into `member`; None if no member asks for one.

    Kafka's `computePreferredServerAssignor`.
    """
    votes = _votes(group)
    if before.assignor is not None:
        votes[before.assignor] -= 1
        if not votes[before.assignor]:
            del votes[before.assignor]
    if member.assignor is not None:
        if member.assignor not in votes:
            votes = {member.assignor: 0, **votes}
        votes[member.assignor] += 1
    return max(votes, key=votes.__getitem__, default=None)


def present_assignor(group: ConsumerGroup) -> str | None:
    """The assignor that most members ask for now; None if none does (Kafka's `preferredServerAssignor`)."""
    votes = _votes(group)
    return max(votes, key=votes.__getitem__, default=None)


def _votes(group: ConsumerGroup) -> dict[str, int]:
    counts = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return {name: counts[name] for name in dict.fromkeys((*ASSIGNORS, *counts)) if counts[name]}
