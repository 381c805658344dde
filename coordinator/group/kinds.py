"""The kinds of groups, the settings of each, with Kafka's defaults, and what is counted of them.

All times are in milliseconds. What the shards of a node have in common is here; the monitoring reads the counts. A
group exists from its first record, its first member, or its first committed offset, until its tombstone is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID


class GroupType(Enum):
    """Which protocol the group speaks; the value is the name on the wire (Kafka's Group.GroupType)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class OwnedPartition(NamedTuple):
    """A partition whose offset is to be committed; the topic id is None where it is not known."""

    topic: str
    topic_id: UUID | None
    partition: int


CONSUMER_ASSIGNORS = ("uniform", "range")
"""The names that members may ask for; the first is the default (`group.consumer.assignors`)."""

NO_OVERRIDES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Of classic groups and of offsets (Kafka's GroupCoordinatorConfig)."""

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
    leaders. `consumer_rebalances`: rises of consumer groups' epochs for new subscriptions or topics. `expired_members`:
    members of any group that were removed because they gave no sign of life until their session, or a phase of a
    rebalance, ended.
    """

    groups: Counter[Enum] = field(default_factory=Counter)
    completed_rebalances: int = 0
    consumer_rebalances: int = 0
    expired_members: int = 0
    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0

    def count_consumer_rebalance(self) -> None:
        self.consumer_rebalances += 1

    def count_expired_member(self) -> None:
        self.expired_members += 1


@dataclass(frozen=True, slots=True)
class ModernGroupConfig:
    """Of one kind of modern groups: `group.consumer.*`, `group.share.*` or `group.streams.*`.

    `assignment_interval` gives what holds now. `overrides`: the groups' own numbers, by group id and by name without
    the name of the kind.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval: Callable[[], int] = lambda: 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = CONSUMER_ASSIGNORS
    overrides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def session_timeout_of(self, group_id: str) -> int:
        return self.overrides.get(group_id, NO_OVERRIDES).get("session.timeout.ms", self.session_timeout_ms)

    def heartbeat_interval_of(self, group_id: str) -> int:
        return self.overrides.get(group_id, NO_OVERRIDES).get("heartbeat.interval.ms", self.heartbeat_interval_ms)

    def assignment_interval_of(self, group_id: str) -> int:
        return self.own(group_id, "assignment.interval.ms", self.assignment_interval())

    def own(self, group_id: str, name: str, default: int) -> int:
        return self.overrides.get(group_id, NO_OVERRIDES).get(name, default)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig(ModernGroupConfig):
    """`group.consumer.*`; the first of `assignors` is the default."""

    may_upgrade: bool = True
    may_downgrade: bool = True
    regex_refresh_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class ShareGroupConfig(ModernGroupConfig):
    """`group.share.*`."""

    max_size: int = 200
    assignors: tuple[str, ...] = ("simple",)


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig(ModernGroupConfig):
    """`group.streams.*`. `tags`: the groups' `streams.rack.aware.assignment.tags`, by group id."""

    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    standby_replicas: int = 0
    assignors: tuple[str, ...] = ("sticky",)
    default_tags: tuple[str, ...] = ()
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def initial_rebalance_delay_of(self, group_id: str) -> int:
        return self.own(group_id, "initial.rebalance.delay.ms", self.initial_rebalance_delay_ms)

    def task_offset_interval_of(self, group_id: str) -> int:
        return self.own(group_id, "task.offset.interval.ms", self.task_offset_interval_ms)

    def acceptable_recovery_lag_of(self, group_id: str) -> int:
        return self.own(group_id, "acceptable.recovery.lag", self.acceptable_recovery_lag)

    def standby_replicas_of(self, group_id: str) -> int:
        return self.own(group_id, "num.standby.replicas", self.standby_replicas)

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
