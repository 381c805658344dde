"""The time that members of groups have: sessions, and what members of modern groups have for a step.

How it works: a session is a timer of the shard. A sign of life only moves the end of the session, so a heartbeat sets
no timer; when the timer is due before that end, it is set again for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome

SESSION = "session"
REBALANCE = "rebalance"
JOIN = "join"
SYNC = "sync"

RETRY_MS = 500
"""Delay in ms before a removal that could not be written is retried."""


class Overdue(NamedTuple):
    """A member, or an id that was handed out, whose time is over; `kind` says which time.

    Time for leaving `epoch` counts only while the member is still at it.
    """

    kind: str
    group_id: str
    member_id: str
    reason: str
    epoch: int | None = None


@dataclass(slots=True)
class _Session:
    """When a session ends as things stand, and when its timer is due; in ms of the monotonic clock."""

    ends_ms: float
    due_ms: float


class Timeouts:
    """The timers of one shard's members; each ends as a message: `over` is the operation of a time that is over.

    Every member has a session, and so has an id that was handed out to a new member of a classic group. A member of a
    consumer or streams group has a rebalance timeout for giving up partitions; one of a consumer group that speaks the
    classic protocol has one for joining when asked to, and another for the SyncGroup after it.
    """

    def __init__(self, context: CoordinatorContext[Any], over: Callable[[Overdue], Outcome[None] | None]) -> None:
        self._timers = context.timers
        self._clock = context.clock
        self._over = over
        self._sessions: dict[tuple[str, str], _Session] = {}

    def start_session(self, group_id: str, member_id: str, timeout_ms: float) -> None:
        """Note a sign of life, which usually only moves the end of the session: no timer is set."""
        ends_ms = self._clock.monotonic_ms() + timeout_ms
        session = self._sessions.get((group_id, member_id))
        if session is not None and session.due_ms <= ends_ms:
            session.ends_ms = ends_ms
        else:
            self._sessions[group_id, member_id] = session = _Session(ends_ms, ends_ms)
            self._wait_for_end(group_id, member_id, session, timeout_ms)

    def _wait_for_end(self, group_id: str, member_id: str, session: _Session, delay_ms: float) -> None:
        def due(_: Any) -> Outcome[None] | None:
            remaining_ms = session.ends_ms - self._clock.monotonic_ms()
            if remaining_ms > 0:
                session.due_ms = session.ends_ms
                self._wait_for_end(group_id, member_id, session, remaining_ms)
                return None
            del self._sessions[group_id, member_id]
            return self._session_over(group_id, member_id)

        self._timers.schedule((SESSION, group_id, member_id), delay_ms, due)

    def left_ms(self, group_id: str, member_id: str) -> float | None:
        """How long the member's session lasts without another sign of life; None if it has none."""
        session = self._sessions.get((group_id, member_id))
        return None if session is None else session.ends_ms - self._clock.monotonic_ms()

    def end_session(self, group_id: str, member_id: str) -> bool:
        """End the session of a member that has gone; return whether there was one."""
        if self._sessions.pop((group_id, member_id), None) is None:
            return False
        self._timers.cancel((SESSION, group_id, member_id))
        return True

    def expire_session(self, group_id: str, member_id: str) -> Outcome[None] | None:
        """The operation by which the member's session is over now."""
        return self._session_over(group_id, member_id) if self.end_session(group_id, member_id) else None

    def _session_over(self, group_id: str, member_id: str) -> Outcome[None] | None:
        return self._over(Overdue(SESSION, group_id, member_id, "the member session expired"))

    def start_rebalance(self, group_id: str, member_id: str, epoch: int, timeout_ms: int) -> None:
        """Start the time in which the member must give up partitions in order to leave its epoch."""
        reason = f"it failed to transition from epoch {epoch} within {timeout_ms}ms"
        self._start(Overdue(REBALANCE, group_id, member_id, reason, epoch), timeout_ms)

    def end_rebalance(self, group_id: str, member_id: str) -> None:
        self._timers.cancel((REBALANCE, group_id, member_id))

    def start_join(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the time in which a member that was asked to join must do so; asking again gives it no more time."""
        if (JOIN, group_id, member_id) not in self._timers:
            reason = "the classic member failed to join within the rebalance timeout"
            self._start(Overdue(JOIN, group_id, member_id, reason), timeout_ms)

    def start_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the time in which a member that has joined must sync."""
        self._timers.cancel((JOIN, group_id, member_id))
        self._start(Overdue(SYNC, group_id, member_id, "the member failed to sync within timeout"), max(timeout_ms, 0))

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._timers.cancel((SYNC, group_id, member_id))

    def end_all(self, group_id: str, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            self.end_session(group_id, member_id)
            for kind in (SESSION, REBALANCE, JOIN, SYNC):
                self._timers.cancel((kind, group_id, member_id))

    def retry(self, overdue: Overdue) -> None:
        """Let the same time be over once more soon, unless it begins anew or is ended before."""
        self._start(overdue, RETRY_MS)

    def _start(self, overdue: Overdue, timeout_ms: int) -> None:
        key = (overdue.kind, overdue.group_id, overdue.member_id)
        self._timers.schedule(key, timeout_ms, lambda _: self._over(overdue))
