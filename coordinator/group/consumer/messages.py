"""Requests of consumer group members, and their answers. Errors are raised as KafkaErrors; times are in ms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.group.consumer.assignment import Partitions

UNCHANGED = -1


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request; None, or UNCHANGED, for fields that the member reports as unchanged.

    `names_itself`: the request has a version in which members make their own ids (KIP-1082, from version 1 on).
    `may_describe`: whether the client has the right to describe a topic; expressions match no other.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    regex: str | None
    assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str
    names_itself: bool
    may_describe: Callable[[str], bool] = lambda _topic: True

    @property
    def tells_nothing(self) -> bool:
        """Whether it is only a sign of life, or reports nothing but what the member owns."""
        return (
            self.topics is None
            and self.rebalance_timeout_ms == UNCHANGED
            and self.instance_id is None
            and self.rack_id is None
            and self.regex is None
            and self.assignor is None
        )

    @property
    def is_full(self) -> bool:
        """Whether the member says everything about itself, as after an error: then the answer has its assignment."""
        tells_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != UNCHANGED and tells_subscription and self.owned is not None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswer:
    """The answer; `assigned` is None if the member knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
