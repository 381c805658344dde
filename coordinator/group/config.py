"""The group coordinator's part of the broker's configuration; all times in milliseconds.

What is counted about classic groups; the broker registers gauges that read it.

A node's counts of offset operations, shared by all shards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from coordinator.group.classic.states import GroupState


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's GroupCoordinatorConfig, with its defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000


@dataclass(slots=True)
class GroupMetrics:
    """Counts over all shards of a node (Kafka's `GroupCoordinatorMetrics`).

    `groups`: groups by state. `completed_rebalances`: assignments accepted from leaders. `expired_members`: members
    removed because they gave no sign of life until their session, or a phase of a rebalance, ended.
    """

    groups: Counter[GroupState] = field(default_factory=Counter)
    completed_rebalances: int = 0
    expired_members: int = 0


@dataclass(slots=True)
class OffsetMetrics:
    """Totals since the start, as Kafka's group-coordinator-metrics (`offset-commit-count` and so on)."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
