"""The configuration of consumer groups; all times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """`group.consumer.*`, with Kafka's defaults.

    `assignment_interval`, in ms, may change at run time. `overrides`: the groups' own configs, by group id and by name
    without the leading `consumer.`.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval: Callable[[], int] = lambda: 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    may_upgrade: bool = True
    may_downgrade: bool = True
    regex_refresh_interval_ms: int = 600_000
    overrides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def session_timeout_of(self, group_id: str) -> int:
        return self.overrides.get(group_id, NOTHING).get("session.timeout.ms", self.session_timeout_ms)

    def assignment_interval_of(self, group_id: str) -> int:
        return self.overrides.get(group_id, NOTHING).get("assignment.interval.ms", self.assignment_interval())

    def heartbeat_interval_of(self, group_id: str) -> int:
        return self.overrides.get(group_id, NOTHING).get("heartbeat.interval.ms", self.heartbeat_interval_ms)
