"""A classic group's rebalance: wait until all have joined, send them the generation, wait until all have synced.

The rules are those of Kafka's `GroupMetadataManager` (prepareRebalance, completeClassicGroupJoin, expirePendingSync).
All of it is soft state, changed in the effects of some operation; only a group that has become empty is recorded.

How it works: a rebalance has two phases, each with an operation in the purgatory. The join phase begins with `prepare`,
and is over when every member has a JoinGroup parked. For a group that was empty it is an InitialDelayedJoin, which
waits `group.initial.rebalance.delay.ms`, and again if a member came meanwhile. The sync phase begins when the join
phase is over, and ends when every member has sent a SyncGroup. At the rebalance timeout, members that did not join are
removed and the join phase is over; members that did not sync are removed, and another rebalance begins. An operation
whose time is over sends the context a message, which finds out whether it is still the group's operation.
"""

from __future__ import annotations

from typing import Any

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic import records
from coordinator.group.classic.delayed import DelayedJoin, DelayedSync, InitialDelayedJoin
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.messages import JoinAnswer, SyncAnswer
from coordinator.group.classic.metrics import GroupMetrics
from coordinator.group.classic.sessions import Sessions
from coordinator.group.classic.states import GroupState
from coordinator.group.config import GroupConfig
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError
from timing.purgatory import DelayedOperation, Purgatory

logger = structlog.get_logger(__name__)


class Rebalances:
    """The rebalances of one shard's groups."""

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: GroupConfig,
        sessions: Sessions,
        purgatory: Purgatory,
        metrics: GroupMetrics,
    ) -> None:
        self._context = context
        self._config = config
        self._sessions = sessions
        self._purgatory = purgatory
        self._metrics = metrics

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
        self._end(group.sync_phase)
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
        self._purgatory.check_and_complete(_join_key(group))

    def member_gone(self, group: ClassicGroup) -> None:
        """An expected member is gone: end the join phase if nobody else is expected, even during the initial delay."""
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group)

    def _wait_for_all(self, group: ClassicGroup) -> None:
        def expired(operation: DelayedOperation) -> None:
            self._context.tell(lambda _: Outcome(effects=lambda _: self._join_timed_out(group, operation)))

        group.join_phase = DelayedJoin(group, self._complete_join, expired)
        self._purgatory.try_complete_else_watch(group.join_phase, (_join_key(group),), group.rebalance_timeout_ms)

    def _join_timed_out(self, group: ClassicGroup, operation: DelayedOperation) -> None:
        if group.join_phase is operation:
            self._complete_join(group)

    def _wait_initially(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def expired(operation: InitialDelayedJoin) -> None:
            self._context.tell(lambda _: Outcome(effects=lambda _: self._initial_delay_over(group, operation)))

        group.join_phase = InitialDelayedJoin(delay_ms, remaining_ms, expired)
        self._purgatory.try_complete_else_watch(group.join_phase, (_join_key(group),), delay_ms)

    def _initial_delay_over(self, group: ClassicGroup, operation: InitialDelayedJoin) -> None:
        if group.join_phase is not operation:
            return
        remaining = operation.remaining_ms
        if group.member_joined_meanwhile and remaining > 0:
            group.member_joined_meanwhile = False
            delay = min(self._config.initial_rebalance_delay_ms, remaining)
            self._wait_initially(group, delay, max(remaining - operation.delay_ms, 0))
        else:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """End the join phase: expel dynamic members that have not joined, and begin the next generation."""
        join_phase, group.join_phase = group.join_phase, None
        self._end(join_phase)
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
        record = records.emptied(group, self._now())
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
            self._sessions.restart(group, member)

        def expired(operation: DelayedSync) -> None:
            self._context.tell(lambda _: Outcome(effects=lambda _: self._sync_timed_out(group, operation)))

        group.sync_phase = DelayedSync(group, expired)
        self._purgatory.try_complete_else_watch(group.sync_phase, (_sync_key(group),), group.rebalance_timeout_ms)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has sent its SyncGroup."""
        group.pending_sync.discard(member_id)
        self._purgatory.check_and_complete(_sync_key(group))

    def _sync_timed_out(self, group: ClassicGroup, operation: DelayedSync) -> None:
        waits = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        if group.sync_phase is operation and waits and group.pending_sync:
            late = sorted(group.pending_sync)
            # A static member may have come back under another id since: as in Kafka, that is a rebalance too.
            members = [group.members[member_id] for member_id in late if member_id in group.members]
            self._expel(group, members, "did not sync within the rebalance timeout")
            self.prepare(group, f"removing {late} on pending sync request expiration")

    def hand_out(self, group: ClassicGroup) -> None:
        """Answer all waiting members with their assignments, which are in place."""
        self._metrics.completed_rebalances += 1
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
                self._sessions.restart(group, member)

    # -- members that leave

    def remove(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member; its parked request is answered UNKNOWN_MEMBER_ID."""
        self._sessions.end(member)
        group.answer_join(member, JoinAnswer("", ErrorCode.unknown_member_id))
        member.answer_sync(SyncAnswer(ErrorCode.unknown_member_id))
        group.remove(member.member_id)

    def _expel(self, group: ClassicGroup, members: list[Member], why: str) -> None:
        for member in members:
            self.remove(group, member)
            self._metrics.expired_members += 1
        if members:
            ids = [member.member_id for member in members]
            logger.info("members removed", group=group.group_id, members=ids, reason=why)

    def give_up(self, group: ClassicGroup) -> None:
        """Stop coordinating the group on this node."""
        self._end(group.join_phase)
        self._end(group.sync_phase)

    def _end(self, operation: DelayedOperation | None) -> None:
        if operation is not None:
            operation.force_complete()

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


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.group_id


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.group_id
