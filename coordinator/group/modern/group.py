"""What all kinds of modern groups are: durable state, the records that change it, and what is derived from it.

How it works: three numbers drive a group, and each is raised by a record.

1. The group epoch rises when members, subscriptions or topics change. The group is Assigning. 2. The target assignment
is computed for that epoch, and the assignment epoch becomes equal to it; this is done at a heartbeat, and at most once
in the assignment interval. The group is Reconciling. 3. Each member, at its own heartbeats, goes to the target: it
gives up what is no longer its own, says so, and then gets what others have given up. When all are there, the group is
Stable.

A kind of group names its types of records in `types`; the `replay_...` methods say what each does to a group.
Compaction may have removed steps between two records, so each is applied regardless of what came before it, and a
tombstone of something unknown does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from coordinator.group.kinds import GroupType, ModernGroupConfig, OwnedPartition
from coordinator.group.modern.topics import TopicsPort
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.consumer_protocol import NO_GENERATION
from protocol.coordinator_records.record_schema import GroupKey, MemberKey, RecordSchema
from protocol.errors import (
    GroupNotEmpty,
    InvalidRequest,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)

JOINING = 0
LEFT = -1
LEFT_FOR_A_WHILE = -2
UNCHANGED = -1

FIRST_EPOCH = 1
"""That of a group before anything has raised it."""
NO_TARGET_EPOCH = -1


class MemberState(IntEnum):
    """Kafka's `MemberState`; the value is what the records of consumer groups hold."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED = 1
    """It must give up something before it can go on to the next epoch."""
    UNRELEASED = 2
    """It is at the target's epoch, but other members have not given up all of its target yet."""
    UNKNOWN = 127
    """A state of a later version of Kafka."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ModernMember(Protocol):
    """A member as all kinds have it. It is a tuple: replay puts another one in its place."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def previous_epoch(self) -> int: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...

    @property
    def state(self) -> MemberState: ...

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool: ...

    def metadata_value(self) -> Any:
        """The value of the record of what it says about itself."""

    def assignment_value(self) -> Any:
        """The value of the record of what it has."""

    def with_metadata(self, value: Any) -> Self: ...

    def with_assignment(self, value: Any) -> Self: ...

    def without_assignment(self) -> Self: ...


M = TypeVar("M", bound=ModernMember)
A = TypeVar("A")


class RecordTypes(NamedTuple):
    """The record types of one kind of group.

    `target_epoch_value` makes a value of an epoch and a time. `besides` are types with one record a group.
    """

    group: RecordSchema[Any, Any]
    member: RecordSchema[Any, Any]
    target_epoch: RecordSchema[Any, Any]
    target: RecordSchema[Any, Any]
    assignment: RecordSchema[Any, Any]
    target_epoch_value: Callable[[int, int], Any]
    besides: tuple[RecordSchema[Any, Any], ...]


class ModernGroup(ABC, Generic[M, A]):
    """Kafka's `ModernGroup`.

    `epoch` is the group's, `assignment_epoch` the one that `target` was made for, at `assigned_ms` (0 if that is not
    known, or does not matter since there were no members); `target` and `members` are by member id, in order of
    arrival, `static_ids` are member ids by instance id. `metadata_hash` stands for the topics that the target was made
    from. `new_member` makes a member that has nothing yet, `nothing` is an empty assignment. `is_fresh` is soft state:
    no topic behind the hash has changed since it was computed.
    """

    group_type: GroupType
    protocol_type: str | None
    types: ClassVar[RecordTypes]
    state_names: ClassVar[tuple[str, ...]] = ("Empty", "Assigning", "Reconciling", "Stable")
    lives_until_deleted: ClassVar[bool] = False
    """Whether it stays when it is empty: without offsets that expire, and never as a group of another kind."""
    new_member: Callable[[str], M]
    nothing: A

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, M] = {}
        self.static_ids: dict[str, str] = {}
        self.target: dict[str, A] = {}
        self.is_fresh = False

    # -- what differs

    @abstractmethod
    def subscription(self, member: M) -> frozenset[str]:
        """The names of the topics that the member subscribes to."""

    def topics_of(self, members: Collection[M], topics: TopicsPort) -> frozenset[str]:
        """The names of the topics that a target for these members is made from."""
        return frozenset[str]().union(*map(self.subscription, members))

    @abstractmethod
    def metadata_value(self, epoch: int, metadata_hash: int) -> Any:
        """The value of the group's own record, with another epoch and hash."""

    @abstractmethod
    def is_subscribed_to_topic(self, topic: str) -> bool:
        """Whether any member reads the topic."""

    def needs_topic(self, topic: str) -> bool:
        """Whether a change of the topic may change the target."""
        return self.is_subscribed_to_topic(topic)

    def held_since(self, member: M, partition: OwnedPartition) -> int | None:
        """The epoch at which the member got the partition; None if it does not have it (KIP-1251)."""
        return None

    def session_timeout_of(self, member: M, config: ModernGroupConfig) -> int:
        return config.session_timeout_of(self.group_id)

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        """The assignor that makes the target."""
        return assignors[0]

    def emptied_ms(self, now_ms: int) -> int:
        """The time of the target that there is without members."""
        return 0

    # -- derived

    @property
    def state_name(self) -> str:
        """Derived from the epochs and the members, as Kafka's `maybeUpdateGroupState` does."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> M:
        """Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> M | None:
        member_id = self.static_ids.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: M) -> A:
        """The member's target; a static member that replaces another takes over its target."""
        member_id, instance_id = member.member_id, member.instance_id
        owner = member_id if instance_id is None else self.static_ids.get(instance_id, member_id)
        return self.target.get(owner, self.nothing)

    def members_with(self, member: M) -> Mapping[str, M]:
        """The members including this one, which replaces an earlier one with its instance id."""
        known = self.members.get(member.member_id)
        if known is member or known == member:
            return self.members
        replaced = self.static_ids.get(member.instance_id) if member.instance_id is not None else None
        return {**{key: other for key, other in self.members.items() if key != replaced}, member.member_id: member}

    # -- for offsets and the admin APIs, as in classic groups

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        knows_member_epochs: bool,
        partitions: Iterable[OwnedPartition] = (),
    ) -> None:
        """A transactional commit may name no member; in an empty group anyone may commit without an epoch.

        An epoch before the member's is good for partitions that it has, or still has to give up, since that epoch or
        an earlier one (KIP-1251): the commit may have been on its way while the epoch rose.
        """
        if generation < 0 and not self.members:
            return
        if transactional and generation == NO_GENERATION and not member_id and group_instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and not knows_member_epochs and not member.is_classic:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            )
        if generation == member.epoch:
            return
        held = (self.held_since(member, partition) for partition in partitions)
        if generation > member.epoch or not all(since is not None and since <= generation for since in held):
            raise self.wrong_epoch(member, generation)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Admin clients, and those that know no member epochs, name no member."""
        if member_id is not None:
            member = self.member(member_id)
            if member_epoch != member.epoch:
                raise self.wrong_epoch(member, member_epoch)
        elif member_epoch >= 0:
            raise InvalidRequest("A member epoch without a member id.")

    def wrong_epoch(self, member: M, epoch: int) -> KafkaError:
        return StaleMemberEpoch(
            f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
        )

    def offset_commit_accepted(self, member_id: str) -> None:
        """Do nothing: only heartbeats are signs of life."""

    def validate_offset_delete(self) -> None:
        """Refuse nothing: offsets of any topic that the group does not subscribe to may be deleted."""

    def validate_delete(self) -> None:
        if self.members:
            raise GroupNotEmpty

    def offset_expires_from(self, commit_timestamp_ms: int) -> int | None:
        """The commit's own time: retention counts from it. Only called for topics without subscribers."""
        return commit_timestamp_ms

    # -- records

    def epoch_record(self, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        return self.record(self.types.group, self.metadata_value(epoch, metadata_hash))

    def member_record(self, member: M) -> CoordinatorRecord:
        return self._member_record(self.types.member, member.member_id, member.metadata_value())

    def assignment_record(self, member: M) -> CoordinatorRecord:
        return self._member_record(self.types.assignment, member.member_id, member.assignment_value())

    def target_record(self, member_id: str, assignment: A) -> CoordinatorRecord:
        return self._member_record(self.types.target, member_id, assignment)

    def target_epoch_record(self, epoch: int, assigned_ms: int) -> CoordinatorRecord:
        return self.record(self.types.target_epoch, self.types.target_epoch_value(epoch, assigned_ms))

    def member_tombstones(self, member_id: str) -> Iterator[CoordinatorRecord]:
        """The tombstones of a member, in the order that Kafka's replay requires."""
        for schema in (self.types.assignment, self.types.target, self.types.member):
            yield self._member_record(schema, member_id, None)

    def tombstones(self, replaced: Mapping[str, str] | None = None) -> Iterator[CoordinatorRecord]:
        """The tombstones that delete the group. `replaced`: new ids of members that earlier records have replaced."""
        types = self.types
        member_ids = [(replaced or {}).get(member_id, member_id) for member_id in self.members]
        for schema in (types.assignment, types.target):
            for member_id in member_ids:
                yield self._member_record(schema, member_id, None)
        yield self.record(types.target_epoch, None)
        for member_id in member_ids:
            yield self._member_record(types.member, member_id, None)
        yield from self.tombstones_besides({})
        for schema in (*types.besides, types.group):
            yield self.record(schema, None)

    def tombstones_besides(self, remaining: Mapping[str, M]) -> Iterable[CoordinatorRecord]:
        """Tombstones of what this kind knows besides its members, if only these members remain."""
        return ()

    def record(self, schema: RecordSchema[Any, Any], value: Any) -> CoordinatorRecord:
        """A record of the group itself; a tombstone if the value is None."""
        return CoordinatorRecord(schema, GroupKey(self.group_id), value)

    def _member_record(self, schema: RecordSchema[Any, Any], member_id: str, value: Any) -> CoordinatorRecord:
        return CoordinatorRecord(schema, MemberKey(self.group_id, member_id), value)

    # -- replay

    @classmethod
    def replays(cls) -> Sequence[tuple[RecordSchema[Any, Any], Callable[[Any, Any, Any], None]]]:
        """Each type of record, and what it does to its group: `apply(group, key, value)`."""
        types = cls.types
        return (
            (types.group, cls.replay_epoch),
            (types.member, cls.replay_member),
            (types.target_epoch, cls.replay_target_epoch),
            (types.target, cls.replay_target),
            (types.assignment, cls.replay_assignment),
        )

    def replay_epoch(self, _: Any, value: Any) -> None:
        """Set the group epoch. A tombstone is the end of the group, which its keeper forgets."""
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def replay_member(self, key: MemberKey, value: Any) -> None:
        if value is None:
            self.remove_member(key.member_id)
        else:
            self.put_member((self.members.get(key.member_id) or self.new_member(key.member_id)).with_metadata(value))

    def replay_target_epoch(self, _: Any, value: Any) -> None:
        self.assignment_epoch, self.assigned_ms = (NO_TARGET_EPOCH, 0) if value is None else value

    def replay_target(self, key: MemberKey, value: Any) -> None:
        if value is None:
            self.target.pop(key.member_id, None)
        else:
            self.target[key.member_id] = value

    def replay_assignment(self, key: MemberKey, value: Any) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self.put_member((member or self.new_member(key.member_id)).with_assignment(value))
        elif member is not None:
            self.put_member(member.without_assignment())

    def put_member(self, member: M) -> None:
        """Add a new or changed member."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> M | None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_instance(member)
        return member

    def _forget_instance(self, member: M) -> None:
        """The member's instance id is no longer its own; another member may have it already."""
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]
