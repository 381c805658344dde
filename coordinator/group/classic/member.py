"""A member of a classic group, and its session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from coordinator.group.classic.expiry import ExpiryAsMessage
from coordinator.group.classic.messages import JoinAnswer, Reply, SyncAnswer
from coordinator.group.classic.protocols import MemberProtocol


class DelayedHeartbeat(ExpiryAsMessage):
    """A session: over once there was no sign of life for its timeout (Kafka's `DelayedHeartbeat`).

    A sign of life only moves `ends_ms`. If `ends_ms` is later when the timer fires at `due_ms`, the session waits on.
    So a heartbeat needs no timer. Both are times of the monotonic clock.
    """

    __slots__ = ("due_ms", "ends_ms")

    def __init__(self, ends_ms: float, expired: Callable[[Self], None]) -> None:
        super().__init__(expired)
        self.due_ms = ends_ms
        self.ends_ms = ends_ms


@dataclass(slots=True)
class Member:
    """One member of a classic group (Kafka's `ClassicGroupMember`).

    A restart finds the fields from `member_id` to `assignment`, with only the group's protocol in `protocols`; the rest
    is soft state. Timeouts are in milliseconds. `awaiting_join` and `awaiting_sync` answer the member's parked request.
    `is_new`: the member has not yet been sent its id with a generation, so it cannot send heartbeats. `session` is the
    current session; an expiry that carries another one is stale.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    awaiting_join: Reply[JoinAnswer] | None = None
    awaiting_sync: Reply[SyncAnswer] | None = None
    is_new: bool = False
    session: DelayedHeartbeat | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the member is waiting for the coordinator, so that no heartbeats can be expected from it."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for a protocol that it supports; KeyError for another."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise KeyError(protocol_name)

    def answer_sync(self, answer: SyncAnswer) -> bool:
        """Answer the parked SyncGroup; False if there is none."""
        if self.awaiting_sync is None:
            return False
        reply, self.awaiting_sync = self.awaiting_sync, None
        reply(answer)
        return True
