"""What the shards of a node's group coordinator have in common: settings, and counts that the monitoring reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's GroupCoordinatorConfig, with its defaults; all times in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000


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
