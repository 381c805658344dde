"""Who is in a classic group: its members, and the ids handed out to new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

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
from protocol.errors import FencedInstanceId, UnknownMemberId


@dataclass(slots=True)
class Member:
    """One member of a classic group (Kafka's `ClassicGroupMember`).

    A restart finds the fields from `member_id` to `assignment`, with only the group's protocol in `protocols`; the rest
    is soft state. Timeouts are in milliseconds. `awaiting_join` and `awaiting_sync` answer the member's parked request.
    `is_new`: the member has not yet been sent its id with a generation, so it cannot send heartbeats.
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
