"""The groups of one shard: classic, consumer, share and streams groups; a name stands for only one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.classic import join, member_requests
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.messages import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
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
from coordinator.group.share import heartbeat as share_heartbeat
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.groups import ShareGroups
from coordinator.group.share.messages import ShareHeartbeat, ShareHeartbeatAnswer
from coordinator.group.streams import heartbeat as streams_heartbeat
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.groups import StreamsGroups
from coordinator.group.streams.messages import JOINING, StreamsHeartbeat, StreamsHeartbeatAnswer
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from protocol.coordinator_records.group_records import GroupMetadataValue
from protocol.coordinator_records.record_schema import GroupKey
from protocol.errors import GroupIdNotFound, InconsistentGroupProtocol


class GroupDirectory:
    """Implements `group_port.Groups`, and takes the requests of each protocol for groups of every kind."""

    def __init__(
        self, classic: ClassicGroups, consumer: ConsumerGroups, share: ShareGroups, streams: StreamsGroups
    ) -> None:
        self.classic = classic
        self.consumer = consumer
        self.share = share
        self.streams = streams

    # -- operations of the classic protocol

    def join(self, request: JoinRequest) -> Outcome[JoinAnswer]:
        """Handle a JoinGroup; a consumer or streams group without members becomes a classic one.

        Raises InconsistentGroupProtocol for a share group, and for a streams group with members.
        """
        streams = self.streams.find(request.group_id)
        if self.share.find(request.group_id) is not None or (streams is not None and streams.members):
            raise InconsistentGroupProtocol
        group = self.consumer.find(request.group_id)
        if group is not None and group.members:
            return classic_members.join(self.consumer, group, request)
        outcome = join.join(self.classic, request)
        if not outcome.records or (group is None and streams is None):
            return outcome
        return outcome._replace(records=[*self.deletion(request.group_id), *outcome.records])

    def sync(self, request: SyncRequest) -> Outcome[SyncAnswer]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return member_requests.sync(self.classic, request)
        return classic_members.sync(self.consumer, group, request)

    def heartbeat(self, request: HeartbeatRequest) -> Outcome[ErrorCode]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return member_requests.heartbeat(self.classic, request)
        return classic_members.heartbeat(self.consumer, group, request)

    def leave(self, request: LeaveRequest) -> Outcome[LeaveAnswer]:
        group = self.consumer.find(request.group_id)
        if group is None:
            return member_requests.leave(self.classic, request)
        return classic_members.leave(self.consumer, group, request)

    # -- the operations of the newer protocols

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> Outcome[ConsumerHeartbeatAnswer]:
        """Handle a ConsumerGroupHeartbeat. Raises GroupIdNotFound for a share or streams group."""
        if self.share.find(request.group_id) is not None or self.streams.find(request.group_id) is not None:
            raise GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        return consumer_heartbeat.heartbeat(self.consumer, request)

    def share_heartbeat(self, request: ShareHeartbeat) -> Outcome[ShareHeartbeatAnswer]:
        """Handle a ShareGroupHeartbeat. Raises GroupIdNotFound for a group of another kind, even an empty one."""
        self.require_share(request.group_id)
        return share_heartbeat.heartbeat(self.share, request)

    def require_share(self, group_id: str) -> None:
        """Raises GroupIdNotFound if the group is of another kind; fine if there is none."""
        if self.share.find(group_id) is None and self.find(group_id) is not None:
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")

    def streams_heartbeat(self, request: StreamsHeartbeat) -> Outcome[StreamsHeartbeatAnswer]:
        """Handle a StreamsGroupHeartbeat; a classic group without members becomes a streams group.

        Raises GroupIdNotFound for any other group of another kind.
        """
        classic = self.classic.find(request.group_id)
        if classic is None or classic.members or request.member_epoch != JOINING:
            self.require_streams(request.group_id)
            return streams_heartbeat.heartbeat(self.streams, request)
        outcome = streams_heartbeat.heartbeat(self.streams, request)
        return outcome._replace(records=[*self.classic.deletion(request.group_id), *outcome.records])

    def require_streams(self, group_id: str) -> None:
        """Raises GroupIdNotFound if the group is of another kind; fine if there is none."""
        if self.streams.find(group_id) is None and self.find(group_id) is not None:
            raise GroupIdNotFound(f"Group {group_id} is not a streams group.")

    # -- groups

    def find(self, group_id: str) -> Group | None:
        newer = self.consumer.find(group_id) or self.share.find(group_id) or self.streams.find(group_id)
        return newer or self.classic.find(group_id)

    def all(self) -> Iterable[Group]:
        newer = self.consumer.by_id, self.share.by_id, self.streams.by_id
        return chain(self.classic.all(), *(groups.values() for groups in newer))

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Raises GroupIdNotFound, also for a group of another kind."""
        group = self.classic.find(group_id)
        if group is None:
            is_other = self.find(group_id) is not None
            raise GroupIdNotFound(f"Group {group_id} " + ("is not a classic group." if is_other else "not found."))
        return group

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        if self.consumer.find(group_id) is not None:
            return self.consumer.deletion(group_id)
        if self.share.find(group_id) is not None:
            return self.share.deletion(group_id)
        if self.streams.find(group_id) is not None:
            return self.streams.deletion(group_id)
        return self.classic.deletion(group_id)

    # -- durable state

    def replay(self, key: GroupKey, value: GroupMetadataValue | None, position: Position) -> None:
        """Apply a record of a classic group, which replaces a group of that name of another kind."""
        if value is not None:
            self.consumer.by_id.pop(key.group, None)
            self.share.by_id.pop(key.group, None)
            self.streams.by_id.pop(key.group, None)
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

    def replay_share(self, apply: Callable[[ShareGroup, Any, Any], None], key: Any, value: Any) -> None:
        """Apply a record of a share group."""
        group = self.share.find(key.group)
        if group is None and value is not None:
            group = self.share.add(key.group)
        if group is not None:
            apply(group, key, value)

    def replay_share_end(self, group_id: str) -> None:
        self.share.by_id.pop(group_id, None)

    def replay_streams(self, apply: Callable[[StreamsGroup, Any, Any], None], key: Any, value: Any) -> None:
        """Apply a record of a streams group, which replaces a classic group of that name."""
        group = self.streams.find(key.group)
        if group is None and value is not None:
            self.classic.forget(key.group)
            group = self.streams.add(key.group)
        if group is not None:
            apply(group, key, value)

    def replay_streams_end(self, group_id: str) -> None:
        self.streams.by_id.pop(group_id, None)

    def note_simple(self, group_id: str) -> None:
        newer = self.consumer.find(group_id) or self.share.find(group_id) or self.streams.find(group_id)
        if newer is None:
            self.classic.note_simple(group_id)

    # -- load and unload

    def loaded(self) -> None:
        self.classic.loaded()
        self.consumer.loaded()
        self.share.loaded()
        self.streams.loaded()

    def unloaded(self) -> None:
        self.classic.unloaded()
