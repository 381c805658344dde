"""What a node counts about groups and their offsets, over all its shards; the monitoring reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


@dataclass(slots=True)
class GroupCounts:
    """Kafka's `GroupCoordinatorMetrics`; all but `groups` are totals since the start.

    `groups`: groups of the classic protocol, by `GroupState`. `completed_rebalances`: assignments accepted from their
    leaders. `expired_members`: their members that were removed because they gave no sign of life until their session,
    or a phase of a rebalance, ended.
    """

    groups: Counter[Enum] = field(default_factory=Counter)
    completed_rebalances: int = 0
    expired_members: int = 0
    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
