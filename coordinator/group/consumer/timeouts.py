"""The time that members of consumer groups have; slower ones are removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from coordinator.group.consumer.leave import remove
from coordinator.group.consumer.member import ConsumerMember
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from coordinator.group.consumer.groups import ConsumerGroups

logger = structlog.get_logger(__name__)

SESSION = "session"
REBALANCE = "rebalance"
JOIN = "join"
SYNC = "sync"

RETRY_MS = 500
"""Delay in ms before a removal that could not be written is retried."""


@dataclass(slots=True)
class _Session:
    """When a session ends as things stand, and when its timer is due; in ms of the monotonic clock."""

    ends_ms: float
    due_ms: float


class Timeouts:
    """The timers of one shard's members; each ends as a message.

    Every member has a session. One that speaks the consumer protocol has a rebalance timeout for giving up partitions;
    one that speaks the classic protocol has one for joining when asked to, and another for the SyncGroup after it.
    """

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups
        self._timers = groups.shard.timers
        self._clock = groups.shard.clock
        self._sessions: dict[tuple[str, str], _Session] = {}

    def start_session(self, group_id: str, member: ConsumerMember) -> None:
        """Note a sign of life, which usually only moves the end of the session: no timer is set."""
        if member.classic is None:
            timeout_ms = self._groups.config.session_timeout_of(group_id)
        else:
            timeout_ms = member.classic.session_timeout_ms
        ends_ms = self._clock.monotonic_ms() + timeout_ms
        session = self._sessions.get((group_id, member.member_id))
        if session is not None and session.due_ms <= ends_ms:
            session.ends_ms = ends_ms
        else:
            self._sessions[group_id, member.member_id] = session = _Session(ends_ms, ends_ms)
            self._wait_for_end(group_id, member.member_id, session, timeout_ms)

    def _wait_for_end(self, group_id: str, member_id: str, session: _Session, delay_ms: float) -> None:
        def due(_: Any) -> Outcome[None] | None:
            remaining_ms = session.ends_ms - self._clock.monotonic_ms()
            if remaining_ms > 0:
                session.due_ms = session.ends_ms
                self._wait_for_end(group_id, member_id, session, remaining_ms)
                return None
            del self._sessions[group_id, member_id]
            return self._fence((SESSION, group_id, member_id), "the member session expired")

        self._timers.schedule((SESSION, group_id, member_id), delay_ms, due)

    def start_rebalance(self, group_id: str, member: ConsumerMember) -> None:
        """Start the time in which the member must give up partitions in order to leave its epoch."""

        def expired(_: Any) -> Outcome[None] | None:
            group = self._groups.find(group_id)
            now = None if group is None else group.members.get(member.member_id)
            if group is None or now is None or now.epoch != member.epoch:
                return None
            reason = f"it failed to transition from epoch {now.epoch} within {now.rebalance_timeout_ms}ms"
            return self._fence(key, reason)

        key = (REBALANCE, group_id, member.member_id)
        self._timers.schedule(key, member.rebalance_timeout_ms, expired)

    def end_rebalance(self, group_id: str, member_id: str) -> None:
        self._timers.cancel((REBALANCE, group_id, member_id))

    def start_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the time in which a member that was asked to join must do so; asking again gives it no more time."""
        if (JOIN, group_id, member.member_id) not in self._timers:
            reason = "the classic member failed to join within the rebalance timeout"
            self._start(JOIN, group_id, member.member_id, member.rebalance_timeout_ms, reason)

    def start_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the time in which a member that has joined must sync."""
        self._timers.cancel((JOIN, group_id, member_id))
        self._start(SYNC, group_id, member_id, max(timeout_ms, 0), "the member failed to sync within timeout")

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._timers.cancel((SYNC, group_id, member_id))

    def end_all(self, group_id: str, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            self._sessions.pop((group_id, member_id), None)
            for kind in (SESSION, REBALANCE, JOIN, SYNC):
                self._timers.cancel((kind, group_id, member_id))

    def _start(self, kind: str, group_id: str, member_id: str, timeout_ms: int, reason: str) -> None:
        self._timers.schedule(
            (kind, group_id, member_id), timeout_ms, lambda _: self._fence((kind, group_id, member_id), reason)
        )

    def _fence(self, key: tuple[str, str, str], reason: str) -> Outcome[None] | None:
        """Remove the member. `key` is that of the expired timer; a removal that cannot be written is retried under it.

        As in Kafka, one that must not be made, since the group cannot become a classic one, is not tried again.
        """
        kind, group_id, member_id = key
        group = self._groups.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return None
        logger.info("member fenced from the group", group=group_id, member=member_id, reason=reason)
        try:
            change = remove(self._groups, group, [member])
        except KafkaError as error:
            logger.error("member not removed", group=group_id, member=member_id, error=str(error))
            return None
        change.after.append(self._groups.metrics.count_expired_member)
        change.otherwise = lambda: self._start(kind, group_id, member_id, RETRY_MS, reason)
        return change.outcome(None)
