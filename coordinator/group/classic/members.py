"""Who is in a classic group, and for how long: members, the ids handed out to new ones, and their sessions.

How it works: a session is a timer of the shard. A sign of life only moves the end of the session, so a heartbeat sets
no timer; when the timer is due before that end, it is set again for the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.classic.messages import (
    JoinAnswer,
    JoinRequest,
    MemberProtocol,
    Reply,
    SyncAnswer,
    choose_protocol,
    names_of,
)
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import FencedInstanceId, UnknownMemberId

SESSION = "classic session"
"""The kind of the timers of sessions: their keys have the ids of the group and of the member too."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The longest that a new member's JoinGroup waits: without an id it sends no heartbeats, so it may have given up."""


@dataclass(slots=True)
class Member:
    """One member of a classic group (Kafka's `ClassicGroupMember`).

    A restart finds the fields from `member_id` to `assignment`, with only the group's protocol in `protocols`; the rest
    is soft state. Timeouts are in milliseconds. `awaiting_join` and `awaiting_sync` answer the member's parked request.
    `is_new`: the member has not yet been sent its id with a generation, so it cannot send heartbeats. The session ends
    at `session_ends_ms`; `timer_due_ms` is when its timer looks, None if none runs. Both are of the monotonic clock.
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
    session_ends_ms: float = 0.0
    timer_due_ms: float | None = None

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


class Roster:
    """The members in order of arrival, and what Kafka's `ClassicGroup` counts about them.

    `members` and what they support change only here. `pending` are the ids handed out with MEMBER_ID_REQUIRED and not
    yet used. The first member is the leader; when it leaves, the one that has been there longest takes over.
    """

    __slots__ = (
        "_supporters",
        "awaiting_join",
        "group_id",
        "leader_id",
        "members",
        "pending",
        "protocol_type",
        "static_ids",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.protocol_type: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, None] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids by instance id."""
        self.awaiting_join = 0
        """Number of members that wait for the answer to a JoinGroup."""
        self._supporters: Counter[str] = Counter()

    @property
    def all_joined(self) -> bool:
        """Whether every member waits for the join phase to end, and nobody else is expected."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Raises UnknownMemberId, or FencedInstanceId if the instance id now belongs to another member (KIP-345)."""
        if group_instance_id is not None:
            owner = self.static_ids.get(group_instance_id)
            if owner is not None and owner != member_id:
                raise FencedInstanceId
            if owner is None:
                raise UnknownMemberId
        if member_id not in self.members:
            raise UnknownMemberId

    def shares_protocol(self, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether one of `protocols` is supported by all members."""
        return len(self.members) in [self._supporters[protocol.name] for protocol in protocols]

    def choose_protocol(self) -> str:
        """The protocol that the members vote for; there must be members."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        return choose_protocol((member.protocols for member in self.members.values()), candidates)

    def add(self, member: Member, protocol_type: str, reply: Reply[JoinAnswer] | None) -> None:
        """Add a new member. The first one determines the group's protocol type and is its leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._enter(member)
        self.await_join(member, reply)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member whose requests the caller has answered; if it led, the longest-standing member leads."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._supporters.subtract(names_of(member.protocols))
        self.awaiting_join -= member.awaiting_join is not None
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def set_protocols(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        before, after = names_of(member.protocols), names_of(protocols)
        member.protocols = protocols
        if before != after:
            self._supporters.subtract(before)
            self._supporters.update(after)

    def await_join(self, member: Member, reply: Reply[JoinAnswer] | None) -> None:
        """Let the member wait for the end of the join phase; `reply` replaces an earlier one."""
        self.awaiting_join += (reply is not None) - (member.awaiting_join is not None)
        member.awaiting_join = reply

    def rejoin(self, member: Member, request: JoinRequest, reply: Reply[JoinAnswer]) -> None:
        """Let a member join again. An earlier JoinGroup of it that is still waiting is answered REBALANCE_IN_PROGRESS.

        Deviation: Kafka never answers the earlier one.
        """
        self.answer_join(member, JoinAnswer(member.member_id, ErrorCode.rebalance_in_progress))
        self.set_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self.await_join(member, reply)

    def answer_join(self, member: Member, answer: JoinAnswer) -> None:
        """Answer the member's parked JoinGroup, if there is one."""
        if member.awaiting_join is not None:
            reply = member.awaiting_join
            self.await_join(member, None)
            reply(answer)

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that joined, unless the leader is one; return False if none joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.awaiting_join is None:
            self.leader_id = next(
                (member.member_id for member in self.members.values() if member.awaiting_join is not None),
                self.leader_id,
            )
        return self.awaiting_join > 0

    def replace(self, old: Member, new: Member) -> None:
        """Put `new` in the place of `old`, whose requests the caller has answered; it leads if `old` did."""
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        self.put_in_place([new if member is old else member for member in self.members.values()])

    def put_in_place(self, members: Collection[Member]) -> None:
        """Replace all members."""
        self.members = {}
        self.static_ids = {}
        self._supporters = Counter()
        self.awaiting_join = sum(member.awaiting_join is not None for member in members)
        for member in members:
            self._enter(member)

    def _enter(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._supporters.update(names_of(member.protocols))
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id


class Sessions:
    """Starts and ends the sessions of one shard's members; `over` is called with the ids of group and member."""

    def __init__(self, context: CoordinatorContext[Any], over: Callable[[str, str], None]) -> None:
        self._context = context
        self._clock = context.clock
        self._timers = context.timers
        self._over = over

    def restart(self, group: Roster, member: Member, timeout_ms: float | None = None) -> None:
        """After a sign of life, let the member's session end `timeout_ms` from now (None: its session timeout)."""
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_ends_ms = ends_ms = self._clock.monotonic_ms() + timeout
        due_ms = member.timer_due_ms
        if due_ms is None or ends_ms < due_ms:
            self._set_timer(group, member, timeout)

    def _set_timer(self, group: Roster, member: Member, delay_ms: float) -> None:
        member.timer_due_ms = member.session_ends_ms
        key = (SESSION, group.group_id, member.member_id)
        self._timers.schedule(key, delay_ms, lambda _: self._due(group, member))

    def _due(self, group: Roster, member: Member) -> Outcome[None] | None:
        remaining_ms = member.session_ends_ms - self._clock.monotonic_ms()
        if remaining_ms > 0:
            self._set_timer(group, member, remaining_ms)
            return None
        member.timer_due_ms = None
        return self._ended(group, member.member_id)

    def _ended(self, group: Roster, member_id: str) -> Outcome[None]:
        return Outcome(effects=lambda _: self._over(group.group_id, member_id))

    def expire(self, group: Roster, member: Member) -> None:
        """Let the member's session be over now, as if there had been no sign of life for its timeout."""
        if member.timer_due_ms is not None:
            self.end(group, member)
            self._context.tell(lambda _: self._ended(group, member.member_id))

    def end(self, group: Roster, member: Member) -> None:
        if member.timer_due_ms is not None:
            member.timer_due_ms = None
            self._timers.cancel((SESSION, group.group_id, member.member_id))

    def start_pending(self, group: Roster, member_id: str, timeout_ms: int) -> None:
        """Wait until the timeout for a member id that was handed out to be used."""
        group.pending[member_id] = None
        key = (SESSION, group.group_id, member_id)
        self._timers.schedule(key, timeout_ms, lambda _: self._ended(group, member_id))

    def end_pending(self, group: Roster, member_id: str) -> bool:
        """Stop waiting for a member id that is now used, or given up; return False if it was not pending."""
        if member_id not in group.pending:
            return False
        del group.pending[member_id]
        self._timers.cancel((SESSION, group.group_id, member_id))
        return True

    def end_all(self, group: Roster) -> None:
        for member in group.members.values():
            self.end(group, member)
        for member_id in list(group.pending):
            self.end_pending(group, member_id)
