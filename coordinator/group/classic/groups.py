"""The classic groups of one shard, and their rebalances: all must join, are sent the generation, and must sync.

The rules are those of Kafka's `GroupMetadataManager` (prepareRebalance, completeClassicGroupJoin, expirePendingSync).
All of it is soft state, changed in the effects of some operation; only a group that has become empty is recorded.

How it works: a rebalance has two phases, each with a timer of the shard. The join phase begins with `prepare`, and is
over when every member has a JoinGroup parked. In a group that was empty it first lasts
`group.initial.rebalance.delay.ms`, and as long again if a member came meanwhile, within the rebalance timeout: joins do
not end it, since more members may come. The sync phase begins when the join phase is over, and ends when every member
has sent a SyncGroup. At the rebalance timeout, members that did not join are removed and the join phase is over;
members that did not sync are removed, and another rebalance begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic.group import ClassicGroup, GroupState, emptied_record, group_metadata
from coordinator.group.classic.members import JoinAnswer, Member, MemberProtocol, SyncAnswer
from coordinator.group.kinds import GroupConfig, GroupCounts
from coordinator.group.timeouts import Timeouts
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from protocol.coordinator_records.group_records import GroupMetadataValue
from protocol.coordinator_records.record_schema import GroupKey
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

JOIN, SYNC = "classic join", "classic sync"
"""The kinds of the timers of the phases: their keys have the group's id too."""


class Rebalances:
    """The rebalances of one shard's groups."""

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: GroupConfig,
        timeouts: Timeouts,
        counts: GroupCounts,
    ) -> None:
        self._context = context
        self._timers = context.timers
        self._config = config
        self._timeouts = timeouts
        self._counts = counts

    # -- the join phase

    def prepare_if_possible(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance or, if one is being prepared, end its join phase if possible."""
        if group.can_rebalance:
            self.prepare(group, reason)
        else:
            self.check_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Ask all members to join again. `reason` is for the log."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_assignments(group, ErrorCode.rebalance_in_progress)
        group.pending_sync.clear()
        self._timers.cancel((SYNC, group.group_id))
        initial = group.is_empty
        old_state = group.state_name
        group.enter(GroupState.PREPARING_REBALANCE, self._now())
        logger.info(
            "preparing to rebalance group",
            group=group.group_id,
            old_state=old_state,
            old_generation=group.generation,
            reason=reason,
        )
        if initial:
            delay = self._config.initial_rebalance_delay_ms
            self._wait_initially(group, delay, max(group.rebalance_timeout_ms - delay, 0))
        else:
            self._wait_for_all(group)

    def check_joined(self, group: ClassicGroup) -> None:
        """After a join or a leave, end the join phase if nobody else is expected, except during the initial delay."""
        if group.ends_when_all_joined and group.all_joined:
            self._complete_join(group)

    def member_gone(self, group: ClassicGroup) -> None:
        """An expected member is gone: end the join phase if nobody else is expected, even during the initial delay."""
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group)

    def _wait_for_all(self, group: ClassicGroup) -> None:
        group.ends_when_all_joined = True
        if group.all_joined:
            self._complete_join(group)
        else:
            self._end_join_in(group, group.rebalance_timeout_ms, self._complete_join)

    def _wait_initially(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait for one span of the initial delay; `remaining_ms` of the rebalance timeout may follow."""

        def over(group: ClassicGroup) -> None:
            if group.member_joined_meanwhile and remaining_ms > 0:
                group.member_joined_meanwhile = False
                delay = min(self._config.initial_rebalance_delay_ms, remaining_ms)
                self._wait_initially(group, delay, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join(group)

        self._end_join_in(group, delay_ms, over)

    def _end_join_in(self, group: ClassicGroup, delay_ms: int, over: Callable[[ClassicGroup], None]) -> None:
        self._timers.schedule((JOIN, group.group_id), delay_ms, lambda _: Outcome(effects=lambda _: over(group)))

    def _complete_join(self, group: ClassicGroup) -> None:
        """End the join phase: expel dynamic members that have not joined, and begin the next generation."""
        group.ends_when_all_joined = False
        self._timers.cancel((JOIN, group.group_id))
        self._expel(
            group,
            [m for m in group.members.values() if m.awaiting_join is None and not m.is_static],
            "did not join within the rebalance timeout",
        )
        if not group.members:
            self._context.tell(lambda _: self._emptied(group))
        elif not group.elect_joined_leader():
            logger.error("could not complete rebalance: no member joined", group=group.group_id)
            self._wait_for_all(group)
        else:
            self._begin_generation(group)

    def _emptied(self, group: ClassicGroup) -> Outcome[None] | None:
        """The operation that records the empty group; it runs right after what emptied the group."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.members:
            return None
        record = emptied_record(group, self._now())
        logger.info("group is now empty", group=group.group_id, generation=record.value.generation)

        def effects(error: KafkaError | None) -> None:
            # As in Kafka, it is empty even if the log does not say so: else nobody could join again. After a restart
            # the log's generation counts, until the sessions of its members end.
            if error is not None:
                group.restore(record.value, self._now())

        return Outcome((record,), effects=effects)

    # -- the sync phase

    def _begin_generation(self, group: ClassicGroup) -> None:
        group.begin_generation(self._now())
        logger.info(
            "stabilized group",
            group=group.group_id,
            generation=group.generation,
            members=len(group.members),
            protocol=group.protocol_name,
        )
        for member in group.members.values():
            group.answer_join(member, present_generation(group, member))
            member.is_new = False
            self._timeouts.start_session(group.group_id, member.member_id, member.session_timeout_ms)
        self._timers.schedule(
            (SYNC, group.group_id),
            group.rebalance_timeout_ms,
            lambda _: Outcome(effects=lambda _: self._sync_timed_out(group)),
        )

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has sent its SyncGroup."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.cancel((SYNC, group.group_id))

    def _sync_timed_out(self, group: ClassicGroup) -> None:
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and group.pending_sync:
            late = sorted(group.pending_sync)
            # A static member may have come back under another id since: as in Kafka, that is a rebalance too.
            members = [group.members[member_id] for member_id in late if member_id in group.members]
            self._expel(group, members, "did not sync within the rebalance timeout")
            self.prepare(group, f"removing {late} on pending sync request expiration")

    def hand_out(self, group: ClassicGroup) -> None:
        """Answer all waiting members with their assignments, which are in place."""
        self._counts.completed_rebalances += 1
        self._answer_syncs(group, ErrorCode.none)

    def refuse_assignments(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer all waiting members with an error: this generation has no assignments."""
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            # A session that expired while its member waited was ignored, so a new one must start.
            if member.answer_sync(assignment_of(group, member) if error is ErrorCode.none else SyncAnswer(error)):
                self._timeouts.start_session(group.group_id, member.member_id, member.session_timeout_ms)

    # -- members that leave

    def remove(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member; its parked request is answered UNKNOWN_MEMBER_ID."""
        self._timeouts.end_session(group.group_id, member.member_id)
        group.answer_join(member, JoinAnswer("", ErrorCode.unknown_member_id))
        member.answer_sync(SyncAnswer(ErrorCode.unknown_member_id))
        group.remove(member.member_id)

    def _expel(self, group: ClassicGroup, members: list[Member], why: str) -> None:
        for member in members:
            self.remove(group, member)
            self._counts.expired_members += 1
        if members:
            ids = [member.member_id for member in members]
            logger.info("members removed", group=group.group_id, members=ids, reason=why)

    def give_up(self, group: ClassicGroup) -> None:
        """Stop coordinating the group on this node."""
        self._timeouts.end_all(group.group_id, (*group.members, *group.pending))
        group.pending.clear()
        self._timers.cancel((JOIN, group.group_id))
        self._timers.cancel((SYNC, group.group_id))

    def _now(self) -> int:
        return self._context.clock.wall_ms()


def present_generation(group: ClassicGroup, member: Member) -> JoinAnswer:
    """The answer to a JoinGroup by a member of the current generation; the leader gets the list of members."""
    return JoinAnswer(
        member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        members=group.joined_members() if member.member_id == group.leader_id else (),
    )


def assignment_of(group: ClassicGroup, member: Member) -> SyncAnswer:
    """The answer to a SyncGroup by a member of a Stable group."""
    return SyncAnswer(
        assignment=member.assignment, protocol_type=group.protocol_type, protocol_name=group.protocol_name
    )


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
        self.by_id: dict[str, ClassicGroup] = {}

    # -- groups

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
        group = self.by_id.pop(group_id, None)
        if group is not None:
            self.rebalances.give_up(group)
            group.enter(GroupState.DEAD, self.context.clock.wall_ms())

    def note_simple(self, group_id: str) -> None:
        self._obtain(group_id)

    def _obtain(self, group_id: str) -> ClassicGroup:
        group = self.by_id.get(group_id)
        if group is None:
            now_ms = self.context.clock.wall_ms()
            group = self.by_id[group_id] = ClassicGroup(group_id, now_ms, self.timeouts, self.entering)
            self.counts.groups[group.state] += 1
        return group

    # -- groups that were consumer groups

    def take_over(self, group_id: str, protocols: Mapping[str, tuple[MemberProtocol, ...]]) -> None:
        """Start the sessions of a restored group's members; `protocols`, by member id, are all that each supports."""
        group = self.by_id[group_id]
        for member in group.members.values():
            group.set_protocols(member, protocols[member.member_id])
            self._start_session(group, member)

    def rebalance(self, group_id: str, reason: str) -> None:
        self.rebalances.prepare(self.by_id[group_id], reason)

    # -- load and unload

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire; a group that is too large rebalances."""
        for group in self.by_id.values():
            for member in group.members.values():
                self._start_session(group, member)
            if len(group.members) > self.config.max_size:
                reason = f"freshly loaded group of {len(group.members)} members is over capacity {self.config.max_size}"
                self.rebalances.prepare(group, reason)

    def unloaded(self) -> None:
        """The shard has failed all waiters; timers and counts are ended here."""
        for group in self.by_id.values():
            self.rebalances.give_up(group)
            self.counts.groups[group.state] -= 1
        self.by_id.clear()

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
        group = self.by_id.get(group_id)
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
