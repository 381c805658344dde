"""A classic group: its state, its generation, and what its GroupMetadata records say.

How it works: a group is in one of five states (`GroupState` has the table of what each request gets in each of them).
`join.py` and `member_requests.py` have a function for each request; they decide, and change the group only through its
methods. `groups.py` takes it from state to state:

- Empty or Stable -> PreparingRebalance: somebody joins, leaves or is silent. JoinGroup requests are parked.
- PreparingRebalance -> CompletingRebalance: all have joined, or the rebalance timeout is over. The generation rises,
  and the parked joins are answered; the leader's answer has everybody's metadata. SyncGroup requests are parked.
- CompletingRebalance -> Stable: the leader's SyncGroup brings the assignments. They are written as one GroupMetadata
  record, and the parked syncs are answered once it is committed.
- PreparingRebalance -> Empty: nobody is left. That is recorded too.
- Empty -> Dead: the group is deleted, or its last offset has expired.

Every other state is soft: after a restart the group is what its last record says. Each record of a group holds all
that a restart finds (`group_metadata` and what follows it; Kafka's GroupCoordinatorRecordHelpers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

import structlog

from coordinator.group.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    JoinedMember,
    Member,
    MemberProtocol,
    Roster,
    subscribed_topics,
)
from coordinator.group.kinds import GroupType, OwnedPartition
from coordinator.group.timeouts import Timeouts
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.consumer_protocol import SchemaError
from protocol.coordinator_records.group_records import GROUP_METADATA, GroupMetadataValue, MemberMetadata
from protocol.coordinator_records.record_schema import GroupKey
from protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupNotEmpty,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from protocol.records.batch import NO_TIMESTAMP


class GroupState(Enum):
    """States of a classic group (Kafka's `ClassicGroupState`); the value is the name on the wire and in logs.

    The answer to a request of a known member with the group's generation:

    ============== =================== ======================= ======================== ============================
    request        Empty               PreparingRebalance      CompletingRebalance      Stable
    ============== =================== ======================= ======================== ============================
    JoinGroup, new starts a rebalance  waits for the rest      starts a rebalance       starts a rebalance
    JoinGroup,     UNKNOWN_MEMBER_ID   waits for the rest      the present generation   leader: starts a rebalance;
    again                                                      at once; with other      follower: the present
                                                               protocols: a rebalance   generation at once; with
                                                                                        other protocols: a rebalance
    JoinGroup,     starts a rebalance  takes the old member's  takes the old member's   takes the old member's
    static, with                       place; waits            place; a rebalance       place; a rebalance only if
    no member id                                                                        the protocol changes
    SyncGroup      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   waits for the leader's   its assignment at once
                                                               assignment
    Heartbeat      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS   accepted                 accepted
    LeaveGroup     UNKNOWN_MEMBER_ID   removed; may complete   removed; a rebalance     removed; a rebalance
                                       the join phase
    OffsetCommit   accepted without a  accepted                REBALANCE_IN_PROGRESS    accepted
                   generation, or
                   UNKNOWN_MEMBER_ID
    session ends   nobody there        removed; may complete   removed; a rebalance     removed; a rebalance
                                       the join phase
    restart        Empty               the last record's state the last record's state  Stable, new sessions
    ============== =================== ======================= ======================== ============================

    A Dead group has been deleted: a request finds no group of that name, and is answered UNKNOWN_MEMBER_ID, except a
    JoinGroup without a member id, which creates a new group.

    In PreparingRebalance and CompletingRebalance a member waiting for an answer is alive, whatever its session, but a
    new member's first JoinGroup waits five minutes at most. The join phase ends when all members have joined, or at the
    rebalance timeout without the dynamic members that did not; if members do not sync within another rebalance timeout,
    they are removed. A group that loses its last member goes through PreparingRebalance to Empty.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_PREDECESSORS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


logger = structlog.get_logger(__name__)


class ClassicGroup(Roster):
    """A group of the classic protocol (Kafka's `ClassicGroup`).

    A restart finds what the last GroupMetadata record said: a group that is Empty, or Stable with members and their
    assignments. `restore` applies such a record, both for loading and in operation. Everything between one record and
    the next (joins, the generation of an unfinished rebalance) is soft state, which a restart forgets.

    `pending_sync` are the members that have not sent a SyncGroup in this generation. `subscribed_topics` is None while
    they are unknown. `entering` is called when it is about to enter a state.
    """

    __slots__ = (
        "_entering",
        "_timeouts",
        "ends_when_all_joined",
        "generation",
        "member_joined_meanwhile",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "state",
        "state_timestamp_ms",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        now_ms: int,
        timeouts: Timeouts,
        entering: Callable[[ClassicGroup, GroupState], None],
    ) -> None:
        super().__init__(group_id)
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms: int | None = now_ms
        self.generation = 0
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.pending_sync: set[str] = set()
        self.member_joined_meanwhile = False
        """Whether somebody joined during the current span of the initial delay."""
        self.ends_when_all_joined = False
        """Whether a join phase is under way that ends once all have joined; the initial delay is waited for."""
        self._timeouts = timeouts
        self._entering = entering

    # -- state

    group_type = GroupType.CLASSIC
    lives_until_deleted = False

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in LEGAL_PREDECESSORS[GroupState.PREPARING_REBALANCE]

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Enter a state. Raises RuntimeError if it may not follow the current one."""
        if self.state not in LEGAL_PREDECESSORS[state]:
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self._move(state, now_ms)

    def _move(self, state: GroupState, now_ms: int) -> None:
        self._entering(self, state)
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def supports(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether a member with these protocols can be in the group."""
        if self.is_empty:
            return protocol_type != "" and protocols != ()
        return protocol_type == self.protocol_type and self.shares_protocol(protocols)

    def has_room(self, member_id: str, limit: int) -> bool:
        """Whether the member (an empty id: a new one) may join, with `group.max.size` as the limit (KIP-389).

        During a rebalance only members that have joined count: if the limit was lowered below the group's size, the
        last ones to join are refused.
        """
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or self.awaiting_join < limit
        is_unused = self.state in (GroupState.EMPTY, GroupState.DEAD)
        return is_unused or member is not None or len(self.members) < limit

    def begin_generation(self, now_ms: int) -> None:
        """End the join phase of a group with members, which now wait for their assignments."""
        self.generation += 1
        self.protocol_name = self.choose_protocol()
        self.subscribed_topics = self._read_subscriptions()
        self.enter(GroupState.COMPLETING_REBALANCE, now_ms)
        self.pending_sync = set(self.members)

    def remove(self, member_id: str) -> Member | None:
        self.pending_sync.discard(member_id)
        return super().remove(member_id)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members as the leader sees them; none while the group prepares a rebalance."""
        assert self.protocol_name is not None, "chosen when the generation began"
        name = self.protocol_name
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        )

    # -- records

    def restore(self, value: GroupMetadataValue, now_ms: int) -> None:
        """Apply a record. Members that exist keep their soft state."""
        protocol = value.protocol or ""
        self.put_in_place([self._restored(saved, protocol) for saved in value.members])
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        self.subscribed_topics = self._read_subscriptions()
        state = GroupState.STABLE if value.members else GroupState.EMPTY
        if state is not self.state:  # by whatever states it came there
            self._move(state, now_ms)
        timestamp = value.current_state_timestamp
        self.state_timestamp_ms = None if timestamp == NO_TIMESTAMP else timestamp

    def _restored(self, saved: MemberMetadata, protocol: str) -> Member:
        timeouts = (
            saved.session_timeout if saved.rebalance_timeout == -1 else saved.rebalance_timeout,
            saved.session_timeout,
        )
        protocols = (MemberProtocol(protocol, saved.subscription),)
        member = self.members.get(saved.member_id)
        if member is None:
            identity = (saved.member_id, saved.group_instance_id, saved.client_id, saved.client_host)
            return Member(*identity, *timeouts, protocols, saved.assignment)
        if protocols[0] not in member.protocols:
            member.protocols = protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = timeouts
        member.assignment = saved.assignment
        return member

    def _read_subscriptions(self) -> frozenset[str] | None:
        """The topics that the members subscribe to; None if they cannot be known."""
        if not self.uses_consumer_protocol:
            return None
        if self.protocol_name is None:
            return None if self.members else frozenset()
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics |= subscribed_topics(member.metadata(self.protocol_name))
            except SchemaError as error:
                logger.warning(
                    "subscription not understood; topics of the group unknown",
                    group=self.group_id,
                    member=member.member_id,
                    protocol=self.protocol_name,
                    error=str(error),
                )
                return None
        return frozenset(topics)

    # -- for offsets and the admin APIs (as in `ModernGroup`)

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        knows_member_epochs: bool = True,
        partitions: Iterable[OwnedPartition] = (),
    ) -> None:
        """Without members, a group accepts commits without a generation from anyone (simple consumers, admin clients).

        With members, it accepts those of its current generation, and transactional ones that name no member (KIP-447).
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation != self.generation:
                raise IllegalGeneration
        elif not transactional and not self.is_empty:
            raise UnknownMemberId
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Do nothing: anyone may read a classic group's offsets."""

    def offset_commit_accepted(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._timeouts.start_session(self.group_id, member_id, member.session_timeout_ms)

    def validate_offset_delete(self) -> None:
        """A running group of consumers protects only topics it subscribes to."""
        self._check_not_dead()
        if not self.is_empty and not self.uses_consumer_protocol:
            raise GroupNotEmpty

    def validate_delete(self) -> None:
        self._check_not_dead()
        if not self.is_empty:
            raise GroupNotEmpty

    def _check_not_dead(self) -> None:
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """For simple consumers, the time of the commit (KIP-211, KIP-496).

        For a group it is when it became Empty (the commit if an old record does not tell), and, for topics that it no
        longer subscribes to, the commit while it is Stable.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.state is GroupState.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None


def group_metadata(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """The record with this value; None makes it the tombstone that ends the group."""
    return CoordinatorRecord(GROUP_METADATA, GroupKey(group_id), value)


def new_group_record(group_id: str, now_ms: int) -> CoordinatorRecord:
    return group_metadata(group_id, GroupMetadataValue("", 0, None, None, now_ms, ()))


def emptied_record(group: ClassicGroup, now_ms: int) -> CoordinatorRecord:
    """The next generation, without members."""
    value = GroupMetadataValue(group.protocol_type or "", group.generation + 1, None, None, now_ms, ())
    return group_metadata(group.group_id, value)


def generation_record(
    group: ClassicGroup, members: Iterable[Member], assignments: Mapping[str, bytes], leader_id: str | None
) -> CoordinatorRecord:
    """The current generation, Stable, with these members and assignments by member id (without any: empty ones)."""
    name = group.protocol_name
    assert name is not None, "chosen when the generation began"
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=name,
        leader=leader_id,
        current_state_timestamp=NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(name),
                assignments.get(member.member_id, b""),
            )
            for member in members
        ),
    )
    return group_metadata(group.group_id, value)
