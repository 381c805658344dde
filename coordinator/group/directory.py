"""The groups of one shard, classic ones and consumer groups; a name stands for only one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.classic import heartbeat, join, leave, sync
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.leave import LeaveAnswer
from coordinator.group.classic.messages import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from coordinator.group.consumer import classic_members
from coordinator.group.consumer import heartbeat as consumer_heartbeat
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from coordinator.group.group_port import Group
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from protocol.coordinator_records.group_records import GroupMetadataKey, GroupMetadataValue
from protocol.errors import GroupIdNotFound


class GroupDirectory:
    """Implements `group_port.Groups`, and takes the requests of the classic protocol for groups of both kinds."""

    def __init__(self, classic: ClassicGroups, consumer: ConsumerGroups) -> None:
        self.classic = classic
        self.consumer = consumer

    # -- operations of the classic protocol

    def join(self, request: JoinRequest) -> Outcome[JoinAnswer]:
        """Handle a JoinGroup; a consumer group without members becomes a classic one."""
        group = self.consumer.find(request.group_id)
        if group is None:
            return join.join(self.classic, request)
        if group.members:
            return classic_members.join(self.consumer, group, request)
        outcome = join.join(self.classic, request)
        if not outcome.records:
            return outcome
        return outcome._replace(records=[*self.consumer.deletion(request.group_id), *outcome.records])

    def sync(self, request: SyncRequest) -> Outcome[SyncAnswer]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return sync.sync(self.classic, request)
        return classic_members.sync(self.consumer, group, request)

    def heartbeat(self, request: HeartbeatRequest) -> Outcome[ErrorCode]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return heartbeat.heartbeat(self.classic, request)
        return classic_members.heartbeat(self.consumer, group, request)

    def leave(self, request: LeaveRequest) -> Outcome[LeaveAnswer]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return leave.leave(self.classic, request)
        return classic_members.leave(self.consumer, group, request)

    # -- the operation of the consumer protocol

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
        return consumer_heartbeat.heartbeat(self.consumer, request)

    # -- groups

    def find(self, group_id: str) -> Group | None:
        return self.consumer.find(group_id) or self.classic.find(group_id)

    def all(self) -> Iterable[Group]:
        return chain(self.classic.all(), self.consumer.by_id.values())

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Raises GroupIdNotFound, also for a consumer group."""
        group = self.classic.find(group_id)
        if group is None:
            is_consumer = self.consumer.find(group_id) is not None
            raise GroupIdNotFound(f"Group {group_id} " + ("is not a classic group." if is_consumer else "not found."))
        return group

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        if self.consumer.find(group_id) is not None:
            return self.consumer.deletion(group_id)
        return self.classic.deletion(group_id)

    # -- durable state

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, position: Position) -> None:
        """Apply a record of a classic group, which replaces a consumer group of that name."""
        if value is not None:
            self.consumer.by_id.pop(key.group, None)
        self.classic.replay(key, value, position)

    def replay_consumer(self, apply: Callable[[ConsumerGroup, Any, Any], None], key: Any, value: Any) -> None:
        """Apply a record of a consumer group, which replaces a classic group of that name."""
        group = self.consumer.find(key.group)
        if group is None and value is not None:
            self.classic.forget(key.group)
            group = self.consumer.add(key.group)
        if group is not None:
            apply(group, key, value)

    def replay_consumer_end(self, group_id: str) -> None:
        self.consumer.by_id.pop(group_id, None)

    def note_simple(self, group_id: str) -> None:
        if self.consumer.find(group_id) is None:
            self.classic.note_simple(group_id)

    # -- load and unload

    def loaded(self) -> None:
        self.classic.loaded()
        self.consumer.loaded()

    def unloaded(self) -> None:
        self.classic.unloaded()
