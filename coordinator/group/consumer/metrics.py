"""What is counted about consumer groups; the broker registers gauges that read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConsumerGroupMetrics:
    """Counts over all shards of a node.

    `rebalances`: rises of group epochs for new subscriptions or topics (Kafka's `consumer-group-rebalance-count`).
    `expired_members`: members removed after a timeout.
    """

    rebalances: int = 0
    expired_members: int = 0

    def count_rebalance(self) -> None:
        self.rebalances += 1

    def count_expired_member(self) -> None:
        self.expired_members += 1
