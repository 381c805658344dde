"""The groups of one shard: a name stands for one group, of one kind.

The kinds are classic, consumer, share and streams groups; the last three are modern groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic import join, member_requests
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.members import (
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from coordinator.group.consumer import classic_members, migration
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.kinds import GroupConfig, GroupCounts
from coordinator.group.modern import heartbeat as advance
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.groups import ModernGroups, ModernGroupServices
from coordinator.group.timeouts import SESSION, Overdue, Timeouts
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from protocol.coordinator_records.group_records import GroupMetadataValue
from protocol.coordinator_records.record_schema import GroupKey
from protocol.errors import GroupIdNotFound, InconsistentGroupProtocol, KafkaError

logger = structlog.get_logger(__name__)


Group = ClassicGroup | ModernGroup[Any, Any]
"""What offsets and the admin APIs see; both kinds have the same methods for them."""


class GroupDirectory:
    """All groups, and the requests of the classic protocol, which may be for a group of another kind."""

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: GroupConfig,
        counts: GroupCounts,
        new_member_id: Callable[[str], str],
        services: ModernGroupServices,
    ) -> None:
        self.timeouts = Timeouts(context, self._over)
        self.classic = ClassicGroups(context, config, new_member_id, counts, self.timeouts)
        self.modern = ModernGroups(context, self.classic, services)

    # -- operations of the classic protocol

    def join(self, request: JoinRequest) -> Outcome[JoinAnswer]:
        """Handle a JoinGroup; a consumer or streams group without members becomes a classic one.

        Raises InconsistentGroupProtocol for a share group, and for a streams group with members.
        """
        group = self.modern.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return classic_members.join(self.modern, group, request)
        if group is not None and (group.members or group.lives_until_deleted):
            raise InconsistentGroupProtocol
        outcome = join.join(self.classic, request)
        if not outcome.records or group is None:
            return outcome
        return outcome._replace(records=[*group.tombstones(), *outcome.records])

    def sync(self, request: SyncRequest) -> Outcome[SyncAnswer]:
        group = self.modern.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.sync(self.modern, group, request)
        return member_requests.sync(self.classic, request)

    def heartbeat(self, request: HeartbeatRequest) -> Outcome[ErrorCode]:
        group = self.modern.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat(self.modern, group, request)
        return member_requests.heartbeat(self.classic, request)

    def leave(self, request: LeaveRequest) -> Outcome[LeaveAnswer]:
        group = self.modern.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return classic_members.leave(self.modern, group, request)
        return member_requests.leave(self.classic, request)

    # -- groups

    def find(self, group_id: str) -> Group | None:
        return self.modern.by_id.get(group_id) or self.classic.by_id.get(group_id)

    def all(self) -> Iterable[Group]:
        return chain(self.classic.by_id.values(), self.modern.by_id.values())

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Raises GroupIdNotFound, also for a group of another kind."""
        group = self.classic.by_id.get(group_id)
        if group is None:
            is_other = group_id in self.modern.by_id
            raise GroupIdNotFound(f"Group {group_id} " + ("is not a classic group." if is_other else "not found."))
        return group

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        group = self.modern.by_id.get(group_id)
        return self.classic.deletion(group_id) if group is None else tuple(group.tombstones())

    # -- durable state

    def replay(self, key: GroupKey, value: GroupMetadataValue | None, position: Position) -> None:
        """Apply a record of a classic group, which replaces a modern group of that name."""
        if value is not None:
            self.modern.by_id.pop(key.group, None)
        self.classic.replay(key, value, position)

    def begin(self, kind: type[ModernGroup[Any, Any]], group_id: str) -> ModernGroup[Any, Any]:
        """Make a modern group, which replaces a group of that name of another kind."""
        self.classic.forget(group_id)
        group = self.modern.by_id[group_id] = kind(group_id)
        return group

    def note_simple(self, group_id: str) -> None:
        if group_id not in self.modern.by_id:
            self.classic.note_simple(group_id)

    # -- load and unload

    def loaded(self) -> None:
        self.classic.loaded()
        self.modern.loaded()

    def unloaded(self) -> None:
        self.classic.unloaded()

    # -- time

    def _over(self, overdue: Overdue) -> Outcome[None] | None:
        """Remove a member whose time is over."""
        group = self.modern.by_id.get(overdue.group_id)
        if group is not None:
            return fence(self.modern, group, overdue)
        if overdue.kind != SESSION:
            return None
        return Outcome(effects=lambda _: self.classic.remove_silent(overdue.group_id, overdue.member_id))


def fence(groups: ModernGroups, group: ModernGroup[Any, Any], overdue: Overdue) -> Outcome[None] | None:
    """Remove a member of a modern group; if that cannot be written, it is tried again.

    As in Kafka, one that must not be removed, since the group cannot become a classic one, is not tried again.
    """
    member = group.members.get(overdue.member_id)
    if member is None or overdue.epoch not in (None, member.epoch):
        return None
    logger.info("member fenced from the group", group=group.group_id, member=member.member_id, reason=overdue.reason)
    try:
        if isinstance(group, ConsumerGroup):
            change = migration.remove(groups, group, [member])
        else:
            change = advance.remove(groups, group, [member])
    except KafkaError as error:
        logger.error("member not removed", group=group.group_id, member=member.member_id, error=str(error))
        return None
    change.after.append(groups.counts.count_expired_member)
    change.otherwise = lambda: groups.timeouts.retry(overdue)
    return change.outcome(None)
