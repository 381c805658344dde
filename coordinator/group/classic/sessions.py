"""The members' sessions: a member that gives no sign of life for its session timeout is gone."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import DelayedHeartbeat, Member
from timing.clock import Clock
from timing.purgatory import Purgatory

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
