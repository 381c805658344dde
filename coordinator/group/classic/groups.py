"""The classic groups of one shard of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from coordinator.group.classic.group import ClassicGroup, group_metadata
from coordinator.group.classic.members import Member
from coordinator.group.classic.messages import MemberProtocol
from coordinator.group.classic.rebalance import Rebalances
from coordinator.group.classic.states import GroupState
from coordinator.group.config import GroupConfig, GroupCounts
from coordinator.group.timeouts import Timeouts
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Position
from protocol.coordinator_records.group_records import GroupMetadataValue
from protocol.coordinator_records.record_schema import GroupKey

logger = structlog.get_logger(__name__)


class ClassicGroups:
    """What the operations on classic groups (`join.py`, `member_requests.py`) work with.

    `new_member_id(prefix)` makes a member id from a client id or an instance id. `counts` are those of all shards.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: GroupConfig,
        new_member_id: Callable[[str], str],
        counts: GroupCounts,
        timeouts: Timeouts,
    ) -> None:
        self.context = context
        self.config = config
        self.new_member_id = new_member_id
        self.counts = counts
        self.timeouts = timeouts
        self.rebalances = Rebalances(context, config, timeouts, counts)
        self._groups: dict[str, ClassicGroup] = {}

    # -- groups

    def find(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    def all(self) -> Iterable[ClassicGroup]:
        return self._groups.values()

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return (group_metadata(group_id, None),)

    # -- durable state

    def replay(self, key: GroupKey, value: GroupMetadataValue | None, position: Position) -> None:
        """Apply a GroupMetadata record; the last one of a group counts."""
        if value is not None:
            self._obtain(key.group).restore(value, self.context.clock.wall_ms())
            return
        self.forget(key.group)

    def forget(self, group_id: str) -> None:
        """Forget the classic group of that name."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            self.rebalances.give_up(group)
            group.enter(GroupState.DEAD, self.context.clock.wall_ms())

    def note_simple(self, group_id: str) -> None:
        self._obtain(group_id)

    def _obtain(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if group is None:
            now_ms = self.context.clock.wall_ms()
            group = self._groups[group_id] = ClassicGroup(group_id, now_ms, self.timeouts, self.entering)
            self.counts.groups[group.state] += 1
        return group

    # -- groups that were consumer groups

    def take_over(self, group_id: str, protocols: Mapping[str, tuple[MemberProtocol, ...]]) -> None:
        """Start the sessions of a restored group's members; `protocols`, by member id, are all that each supports."""
        group = self._groups[group_id]
        for member in group.members.values():
            group.set_protocols(member, protocols[member.member_id])
            self._start_session(group, member)

    def rebalance(self, group_id: str, reason: str) -> None:
        self.rebalances.prepare(self._groups[group_id], reason)

    # -- load and unload

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire; a group that is too large rebalances."""
        for group in self._groups.values():
            for member in group.members.values():
                self._start_session(group, member)
            if len(group.members) > self.config.max_size:
                reason = f"freshly loaded group of {len(group.members)} members is over capacity {self.config.max_size}"
                self.rebalances.prepare(group, reason)

    def unloaded(self) -> None:
        """The shard has failed all waiters; timers and counts are ended here."""
        for group in self._groups.values():
            self.rebalances.give_up(group)
            self.counts.groups[group.state] -= 1
        self._groups.clear()

    def entering(self, group: ClassicGroup, state: GroupState) -> None:
        """The group is about to enter a state."""
        self.counts.groups[group.state] -= 1
        if state is not GroupState.DEAD:
            self.counts.groups[state] += 1

    # -- sessions

    def _start_session(self, group: ClassicGroup, member: Member) -> None:
        self.timeouts.start_session(group.group_id, member.member_id, member.session_timeout_ms)

    def start_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Wait until the timeout for a member id that was handed out to be used."""
        group.pending[member_id] = None
        self.timeouts.start_session(group.group_id, member_id, timeout_ms)

    def end_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """Stop waiting for a member id that is now used, or given up; return False if it was not pending."""
        if member_id not in group.pending:
            return False
        del group.pending[member_id]
        self.timeouts.end_session(group.group_id, member_id)
        return True

    def remove_silent(self, group_id: str, member_id: str) -> None:
        """Remove the member, or the id handed out to one, whose session is over, unless it waits for an answer."""
        group = self.find(group_id)
        if group is None:
            return
        if self.end_pending(group, member_id):
            logger.info("pending member removed after session timeout", group=group_id, member=member_id)
            self.rebalances.member_gone(group)
            return
        member = group.members.get(member_id)
        if member is None or member.is_waiting:
            return
        logger.info("member session expired", group=group_id, member=member_id)
        self.counts.expired_members += 1
        self.rebalances.remove(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            self.rebalances.member_gone(group)
        else:
            self.rebalances.prepare(group, f"removing member {member_id} on heartbeat expiration")
