"""Requests to a classic group and their answers, independent of API versions.

Errors are wire codes, 0 for none. Durations are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode

from coordinator.group.classic.protocols import MemberProtocol
from protocol.consumer_protocol import NO_GENERATION

T = TypeVar("T")

Reply: TypeAlias = Callable[[T], None]
"""Answers a parked request."""

UNKNOWN_MEMBER_ID = ""


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
    """A LeaveGroup request; its answer is an error code for each of `members`, in order."""

    group_id: str
    members: tuple[MemberIdentity, ...]
