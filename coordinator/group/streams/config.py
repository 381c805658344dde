"""The configuration of streams groups; all times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    """`group.streams.*`, with Kafka's defaults.

    `overrides`: the groups' own numbers, by group id and by name without the leading `streams.`. `tags`: the groups'
    `streams.rack.aware.assignment.tags`, by group id. `assignment_interval` gives what holds now.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    standby_replicas: int = 0
    max_size: int = 2**31 - 1
    assignor: str = "sticky"
    default_tags: tuple[str, ...] = ()
    assignment_interval: Callable[[], int] = lambda: 1_000
    overrides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def session_timeout_of(self, group_id: str) -> int:
        return self._of(group_id, "session.timeout.ms", self.session_timeout_ms)

    def heartbeat_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "heartbeat.interval.ms", self.heartbeat_interval_ms)

    def assignment_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "assignment.interval.ms", self.assignment_interval())

    def initial_rebalance_delay_of(self, group_id: str) -> int:
        return self._of(group_id, "initial.rebalance.delay.ms", self.initial_rebalance_delay_ms)

    def task_offset_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "task.offset.interval.ms", self.task_offset_interval_ms)

    def acceptable_recovery_lag_of(self, group_id: str) -> int:
        return self._of(group_id, "acceptable.recovery.lag", self.acceptable_recovery_lag)

    def standby_replicas_of(self, group_id: str) -> int:
        return self._of(group_id, "num.standby.replicas", self.standby_replicas)

    def tags_of(self, group_id: str) -> tuple[str, ...]:
        """The keys of client tags that every member must have."""
        return self.tags.get(group_id, self.default_tags)

    def assignment_configs_of(self, group_id: str) -> tuple[tuple[str, str], ...]:
        """What the assignor depends on: the group is assigned anew if it changes."""
        configs = {"num.standby.replicas": str(self.standby_replicas_of(group_id))}
        tags = self.tags_of(group_id)
        if tags:
            configs["rack.aware.assignment.tags"] = ",".join(tags)
        return tuple(configs.items())

    def _of(self, group_id: str, name: str, default: int) -> int:
        return self.overrides.get(group_id, NOTHING).get(name, default)
