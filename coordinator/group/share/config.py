"""The configuration of share groups; all times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """`group.share.*`, with Kafka's defaults.

    `assignment_interval` gives what holds now. `overrides`: the groups' own configs, by group id and by name without
    the leading `share.`.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval: Callable[[], int] = lambda: 1_000
    max_size: int = 200
    assignor: str = "simple"
    overrides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def session_timeout_of(self, group_id: str) -> int:
        return self._of(group_id, "session.timeout.ms", self.session_timeout_ms)

    def heartbeat_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "heartbeat.interval.ms", self.heartbeat_interval_ms)

    def assignment_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "assignment.interval.ms", self.assignment_interval())

    def _of(self, group_id: str, name: str, default: int) -> int:
        return self.overrides.get(group_id, NOTHING).get(name, default)
