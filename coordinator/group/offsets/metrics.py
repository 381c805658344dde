"""A node's counts of offset operations, shared by all shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OffsetMetrics:
    """Totals since the start, as Kafka's group-coordinator-metrics (`offset-commit-count` and so on)."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
