"""Who is in a classic group, what members ask and are answered, and what they name in it.

Requests and answers are independent of API versions. Errors are wire codes, 0 for none. Durations are milliseconds.
Members name their protocols (for consumers: assignors), of which the group chooses one, each with metadata: for
consumers a subscription, which has the topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from protocol.consumer_protocol import NO_GENERATION, deserialize_topics
from protocol.errors import FencedInstanceId, UnknownMemberId

T = TypeVar("T")

Reply: TypeAlias = Callable[[T], None]
"""Answers a parked request."""

UNKNOWN_MEMBER_ID = ""


class MemberProtocol(NamedTuple):
    """A protocol that a member supports, with the member's metadata for it."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """A JoinGroup request.

    `member_id_required`: a dynamic member must be given its id first (KIP-394, from version 4). `can_skip_assignment`:
    the client understands `skip_assignment` (KIP-814, from version 9).
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    reason: str | None = None
    member_id_required: bool = True
    can_skip_assignment: bool = True

    @property
    def client_reason(self) -> str:
        return self.reason or "not provided"


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to a JoinGroup; only the leader gets `members`."""

    member_id: str
    error: ErrorCode = ErrorCode.none
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """A SyncGroup request; `assignments` by member id, sent only by the leader."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    assignments: dict[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class SyncAnswer(NamedTuple):
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.none
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class HeartbeatRequest(Protocol):
    """A Heartbeat request, as kio's newest class has it; its answer is an error code."""

    @property
    def group_id(self) -> str: ...
    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def generation_id(self) -> int: ...


class MemberIdentity(NamedTuple):
    """One member named in a LeaveGroup: by its instance id if `member_id` is empty (KIP-345)."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveRequest(NamedTuple):
    """A LeaveGroup request."""

    group_id: str
    members: tuple[MemberIdentity, ...]


LeaveAnswer: TypeAlias = tuple[ErrorCode, ...]
"""An error code for each member of the request, in order."""


# -- what members name in their requests


def names_of(protocols: Iterable[MemberProtocol]) -> frozenset[str]:
    """The protocols' names without repetitions. Deviation: Kafka counts repeated ones, and may find no common protocol.

    In that case Kafka answers no member when the join phase ends.
    """
    return frozenset([protocol.name for protocol in protocols])


def common_protocols(members: Iterable[tuple[MemberProtocol, ...]]) -> frozenset[str]:
    """The names that every member supports; there must be members."""
    return frozenset.intersection(*map(names_of, members))


def choose_protocol(members: Iterable[tuple[MemberProtocol, ...]], candidates: Container[str]) -> str:
    """The candidate with the most votes: each member votes for the first of its protocols that is a candidate.

    In a tie, the candidate that got a vote first. Each member must support a candidate.
    """
    votes = Counter(
        next(protocol.name for protocol in protocols if protocol.name in candidates) for protocols in members
    )
    return max(votes, key=votes.__getitem__)


CONSUMER_PROTOCOL_TYPE = "consumer"

_LONGEST_KEPT = 4096
"""The largest subscription, in bytes, that is cached: clients may send large ones."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics in a serialized subscription.

    Raises SchemaError, where Kafka carries on without them, and ImpossibleLengthError, where it fails unexpectedly.
    """
    return _read_again(metadata) if len(metadata) <= _LONGEST_KEPT else _read(metadata)


def _read(metadata: bytes) -> frozenset[str]:
    return frozenset(deserialize_topics(metadata))


_read_again = lru_cache(maxsize=128)(_read)
"""The topics, cached: a subscription is read more than once, and most members have the same."""


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
