"""The members' sessions: whoever gives no sign of life for a session timeout is gone."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.group.group import ClassicGroup
from coordinator.group.member import Member
from timing.purgatory import DelayedOperation, Purgatory

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member's JoinGroup may wait: it has no id yet to send heartbeats with, and may have given up."""


class DelayedHeartbeat(DelayedOperation):
    """A session: completed by the next sign of life, expired by their absence (Kafka's `DelayedHeartbeat`)."""

    __slots__ = ("_expired",)

    def __init__(self, expired: Callable[[DelayedHeartbeat], None]) -> None:
        super().__init__()
        self._expired = expired

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """The next session takes over."""

    def on_expiration(self) -> None:
        self._expired(self)


class Sessions:
    """Starts and ends the sessions of one shard's members; `ended(group id, member id, session)` hears of expiries."""

    def __init__(self, purgatory: Purgatory, ended: Callable[[str, str, DelayedOperation], None]) -> None:
        self._purgatory = purgatory
        self._ended = ended

    def restart(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """The member lives; unless it gives a sign within the timeout (its session timeout), its session ends."""
        self.end(member)
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session = self._start(group.group_id, member.member_id, timeout)

    def end(self, member: Member) -> None:
        if member.session is not None:
            member.session.force_complete()
            member.session = None

    def start_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """A member id is handed out, to be used within the timeout."""
        group.pending[member_id] = self._start(group.group_id, member_id, timeout_ms)

    def end_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """The member id is used, or given up; False where it was not pending."""
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

    def _start(self, group_id: str, member_id: str, timeout_ms: int) -> DelayedHeartbeat:
        session = DelayedHeartbeat(lambda expired: self._ended(group_id, member_id, expired))
        self._purgatory.try_complete_else_watch(session, ((group_id, member_id),), timeout_ms)
        return session
