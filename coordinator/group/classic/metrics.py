"""What is counted about classic groups; the broker registers gauges that read it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from coordinator.group.classic.states import GroupState


@dataclass(slots=True)
class GroupMetrics:
    """Counts over all shards of a node (Kafka's `GroupCoordinatorMetrics`).

    `groups`: groups by state. `completed_rebalances`: assignments accepted from leaders. `expired_members`: members
    removed because they gave no sign of life until their session, or a phase of a rebalance, ended.
    """

    groups: Counter[GroupState] = field(default_factory=Counter)
    completed_rebalances: int = 0
    expired_members: int = 0
