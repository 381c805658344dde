"""What a classic group as a whole waits for: the end of the join phase and of the sync phase.

The members' sessions: a member that gives no sign of life for its session timeout is gone.

A classic group's rebalance: wait until all have joined, send them the generation, wait until all have synced.

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

from collections.abc import Callable
from typing import Any, Self

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.classic import group as records
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.members import DelayedHeartbeat, ExpiryAsMessage, Member
from coordinator.group.classic.messages import JoinAnswer, SyncAnswer
from coordinator.group.classic.states import GroupState
from coordinator.group.config import GroupConfig, GroupMetrics
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError
from timing.clock import Clock
from timing.purgatory import DelayedOperation, Purgatory


class DelayedJoin(ExpiryAsMessage):
    """The join phase: over when all members have joined, at the latest after the rebalance timeout.

    `over` ends the phase at once.
    """

    __slots__ = ("_all_joined", "_group", "_over")

    def __init__(
        self, group: ClassicGroup, over: Callable[[ClassicGroup], None], expired: Callable[[Self], None]
    ) -> None:
        super().__init__(expired)
        self._group = group
        self._over = over
        self._all_joined = False

    def try_complete(self) -> bool:
        if not self._group.all_joined:
            return False
        self._all_joined = True
        return self.force_complete()

    def on_complete(self) -> None:
        if self._all_joined:
            self._over(self._group)


class InitialDelayedJoin(ExpiryAsMessage):
    """One span of the initial delay of a group that was empty: joins do not end it, since more members may come.

    After `delay_ms` another span follows if somebody joined meanwhile, as long as `remaining_ms` of the rebalance
    timeout allow.
    """

    __slots__ = ("delay_ms", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int, expired: Callable[[Self], None]) -> None:
        super().__init__(expired)
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms


class DelayedSync(ExpiryAsMessage):
    """The sync phase of one generation: over when all members have sent a SyncGroup, at the latest after the rebalance
    timeout."""

    __slots__ = ("_group", "generation")

    def __init__(self, group: ClassicGroup, expired: Callable[[Self], None]) -> None:
        super().__init__(expired)
        self.generation = group.generation
        self._group = group

    def try_complete(self) -> bool:
        return not self._group.pending_sync and self.force_complete()


NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The longest that a new member's JoinGroup waits: without an id it sends no heartbeats, so it may have given up."""


class Sessions:
    """Starts and ends the sessions of one shard's members; calls `ended(group id, member id, session)` on expiry."""

    def __init__(self, clock: Clock, purgatory: Purgatory, ended: Callable[[str, str, DelayedHeartbeat], None]) -> None:
        self._clock = clock
        self._purgatory = purgatory
        self._ended = ended

    def restart(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """After a sign of life, let the member's session end `timeout_ms` from now (None: its session timeout)."""
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        ends_ms = self._clock.monotonic_ms() + timeout
        session = member.session
        if session is not None and session.due_ms <= ends_ms and not session.completed:
            session.ends_ms = ends_ms
        else:
            self.end(member)
            member.session = self._start(group.group_id, member.member_id, timeout)

    def was_prolonged(self, group: ClassicGroup, member: Member, session: DelayedHeartbeat) -> bool:
        """Whether a sign of life has postponed the end of the session that was due; then it waits on."""
        remaining = session.ends_ms - self._clock.monotonic_ms()
        if remaining <= 0:
            return False
        member.session = self._start(group.group_id, member.member_id, remaining)
        return True

    def expire(self, member: Member) -> None:
        """Let the member's session be over now, as if there had been no sign of life for its timeout."""
        session = member.session
        if session is not None and not session.completed:
            session.ends_ms = self._clock.monotonic_ms()
            session.expire()

    def end(self, member: Member) -> None:
        if member.session is not None:
            member.session.force_complete()
            member.session = None

    def start_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Wait until the timeout for a member id that was handed out to be used."""
        group.pending[member_id] = self._start(group.group_id, member_id, timeout_ms)

    def end_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """Stop waiting for a member id that is now used, or given up; return False if it was not pending."""
        session = group.pending.pop(member_id, None)
        if session is None:
            return False
        session.force_complete()
        return True

    def end_all(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            self.end(member)
        for member_id in list(group.pending):
            self.end_pending(group, member_id)

    def _start(self, group_id: str, member_id: str, timeout_ms: float) -> DelayedHeartbeat:
        ends_ms = self._clock.monotonic_ms() + timeout_ms
        session = DelayedHeartbeat(ends_ms, lambda expired: self._ended(group_id, member_id, expired))
        self._purgatory.try_complete_else_watch(session, ((group_id, member_id),), timeout_ms)
        return session


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
