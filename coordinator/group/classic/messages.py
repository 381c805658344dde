"""Requests to a classic group and their answers, independent of API versions, and what members name in them.

Errors are wire codes, 0 for none. Durations are milliseconds. Members name their protocols (for consumers: assignors),
of which the group chooses one, each with metadata: for consumers a subscription, which has the topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from protocol.consumer_protocol import NO_GENERATION, deserialize_topics

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
