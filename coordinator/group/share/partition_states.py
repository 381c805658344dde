"""Which partitions the share coordinator has a state of, for a share group (`ShareGroupStatePartitionMetadata`).

How it works: a partition goes from `initializing`, when a member subscribes to its topic, to `initialized`, when the
share coordinator has made its state. Only then it is assigned. Requests that are lost are sent again with a later
heartbeat. While a group has no members, an operator may set or delete start offsets, which makes and ends states.

DeleteGroups of share groups: the share coordinator forgets first, else the name could not be used again.
`begin_deleting` notes that the states of the groups' topics are on their way out (`deleting`), so that a member that
joins meanwhile has them made anew. Once the share coordinator has forgotten them, the groups are deleted as any other.
If it cannot, they stay, and the next DeleteGroups tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from coordinator.group.modern.groups import ModernGroups
from coordinator.group.modern.heartbeat import Change
from coordinator.group.offsets.offsets import Offsets
from coordinator.group.share.group import ShareGroup
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.coordinator_records.share_records import ShareGroupStatePartitionMetadataValue, TopicPartitions
from protocol.errors import GroupIdNotFound, GroupNotEmpty, InvalidGroupId, KafkaError

logger = structlog.get_logger(__name__)

RETRY_MS = 30_000.0
"""After this the share coordinator is asked again (`group.share.initialize.retry.interval.ms`)."""

States = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""

# -- initialization


def initialize(groups: ModernGroups, group: ShareGroup, names: frozenset[str], change: Change) -> None:
    """Have the share coordinator make the states that partitions of these topics lack."""
    wanted = _missing(groups, group, names)
    if wanted:
        initializing = joined(group.state.initializing, wanted)
        change.records.append(_record(group, group.state._replace(initializing=initializing)))
    epoch, seen = change.epoch_of(group), (groups.topics.version, group.state)

    def ask() -> None:
        known = groups.find(ShareGroup, group.group_id)
        if known is None:
            return
        known.is_fresh = not wanted and seen == (groups.topics.version, known.state)
        if wanted:
            _ask(groups, known, wanted, epoch)

    change.after.append(ask)


def _missing(groups: ModernGroups, group: ShareGroup, names: frozenset[str]) -> dict[UUID, TopicPartitions]:
    """The partitions of subscribed topics that have no state, also those that are asked for since long."""
    late = groups.context.clock.monotonic_ms() >= group.initializing_until_ms
    missing = {}
    for name in names:
        topic = groups.topics.by_name(name)
        if topic is None:
            continue
        known = set(_partitions(group.state.initialized, topic.id))
        if not late:
            known |= _partitions(group.state.initializing, topic.id)
        wanted = frozenset(range(topic.partition_count)) - known
        if wanted:
            missing[topic.id] = TopicPartitions(name, wanted)
    return missing


def _ask(groups: ModernGroups, group: ShareGroup, wanted: Mapping[UUID, TopicPartitions], state_epoch: int) -> None:
    """Ask the share coordinator; what comes of it is an operation of its own, perhaps on the groups as loaded anew."""
    group_id = group.group_id
    group.initializing_until_ms = groups.context.clock.monotonic_ms() + RETRY_MS

    def done(error: KafkaError | None) -> None:
        groups.context.tell(lambda state: _done(state.groups.modern, group_id, wanted, error))

    topics = {topic_id: topic.partitions for topic_id, topic in wanted.items()}
    # What was produced to a new partition before the group knew of it is not to be missed.
    grown = wanted.keys() & group.state.initialized.keys()
    groups.share_state.initialize(group_id, topics, state_epoch, done, grown=grown)


def _done(
    groups: ModernGroups, group_id: str, wanted: Mapping[UUID, TopicPartitions], error: KafkaError | None
) -> Outcome[None]:
    group = groups.find(ShareGroup, group_id)
    if group is None:
        return Outcome()
    group.initializing_until_ms = 0.0
    if error is not None:
        logger.warning("share partitions not initialized", group=group_id, error=str(error))
        return Outcome()
    initializing = group.state.initializing
    made = {
        topic_id: TopicPartitions(topic.name, topic.partitions & _partitions(initializing, topic_id))
        for topic_id, topic in wanted.items()
        if topic_id in initializing  # else the topic, or its state, was deleted meanwhile
    }
    left = {
        topic_id: TopicPartitions(topic.name, topic.partitions - _partitions(made, topic_id))
        for topic_id, topic in initializing.items()
    }
    state = group.state._replace(
        initializing={topic_id: topic for topic_id, topic in left.items() if topic.partitions},
        initialized=joined(group.state.initialized, made),
    )
    return Outcome([_record(group, state)] if made else ())


def topics_deleted(groups: ModernGroups, topic_ids: Collection[UUID]) -> Outcome[None]:
    """Forget that these topics have a state: they are gone, and the share coordinator forgets it by itself."""
    left = [(group, _without(group.state, topic_ids)) for group in groups.all(ShareGroup)]
    return Outcome([_record(group, state) for group, state in left if state != group.state], atomic=False)


# -- start offsets


def begin_altering(groups: ModernGroups, group_id: str) -> int:
    """The state epoch for a start offset that is to be set. Raises GroupNotEmpty, GroupIdNotFound, InvalidGroupId."""
    return _empty_group(groups, group_id, may_be_new=True).epoch


def note_altered(groups: ModernGroups, group_id: str, topics: Mapping[UUID, TopicPartitions]) -> Outcome[None]:
    """The partitions have a state now. Makes the group if there is none. Raises what `begin_altering` does."""
    group = _empty_group(groups, group_id, may_be_new=True)
    return Outcome([_record(group, group.state._replace(initialized=joined(group.state.initialized, topics)))])


def states_to_delete(groups: ModernGroups, group_id: str, names: set[str]) -> dict[str, tuple[UUID, frozenset[int]]]:
    """The partitions with a state of these topics, by name.

    Raises GroupIdNotFound, GroupNotEmpty, InvalidGroupId.
    """
    group = _empty_group(groups, group_id)
    return {topic.name: (topic_id, topic.partitions) for topic_id, topic in group.states() if topic.name in names}


def note_deleted(groups: ModernGroups, group_id: str, topic_ids: set[UUID]) -> Outcome[None]:
    """The topics have no state any more."""
    group = groups.find(ShareGroup, group_id)
    if group is None:
        raise GroupIdNotFound
    return Outcome([_record(group, _without(group.state, topic_ids))])


def _empty_group(groups: ModernGroups, group_id: str, *, may_be_new: bool = False) -> ShareGroup:
    if not group_id:
        raise InvalidGroupId
    group = groups.find_only(ShareGroup, group_id) if may_be_new else groups.get(ShareGroup, group_id)
    if group is None:
        return ShareGroup(group_id)
    if not group.is_empty:
        raise GroupNotEmpty
    return group


# -- deletion of groups


class Begun(NamedTuple):
    """The error codes of groups that are deleted or cannot be, and the states of those that wait for them to go."""

    codes: dict[str, ErrorCode]
    waiting: dict[str, States]


def begin_deleting(groups: ModernGroups, offsets: Offsets, group_ids: Iterable[str]) -> Outcome[Begun]:
    """Delete the groups that the share coordinator knows nothing of."""
    known = {group_id: groups.find(ShareGroup, group_id) for group_id in group_ids}
    empty = {group_id: group for group_id, group in known.items() if group is not None and group.is_empty}
    states = {group_id: _states(groups, group) for group_id, group in empty.items()}
    waiting = {group_id: topics for group_id, topics in states.items() if topics}
    outcome = offsets.delete_groups(group_id for group_id in group_ids if group_id not in waiting)
    codes = outcome.reply
    assert isinstance(codes, dict)
    written = [*outcome.records, *(_deleting(empty[group_id]) for group_id in waiting)]
    return Outcome(written, Begun(codes, waiting), outcome.effects)


def _states(groups: ModernGroups, group: ShareGroup) -> States:
    """What the share coordinator may know, also of what was on its way out before."""
    states = {topic_id: topic.partitions for topic_id, topic in group.states()}
    for topic_id in group.state.deleting:
        topic = groups.topics.by_id(topic_id)
        if topic is not None:
            states[topic_id] = states.get(topic_id, frozenset()) | frozenset(range(topic.partition_count))
    return states


def _deleting(group: ShareGroup) -> CoordinatorRecord:
    names = {topic_id: topic.name for topic_id, topic in group.states()}
    return _record(group, ShareGroupStatePartitionMetadataValue({}, {}, {**group.state.deleting, **names}))


# -- the record


def _record(group: ShareGroup, state: ShareGroupStatePartitionMetadataValue) -> CoordinatorRecord:
    (schema,) = group.types.besides
    return group.record(schema, state)


def _without(
    state: ShareGroupStatePartitionMetadataValue, topic_ids: Collection[UUID]
) -> ShareGroupStatePartitionMetadataValue:
    """The same without these topics."""
    return ShareGroupStatePartitionMetadataValue(
        {key: topic for key, topic in state.initializing.items() if key not in topic_ids},
        {key: topic for key, topic in state.initialized.items() if key not in topic_ids},
        {key: name for key, name in state.deleting.items() if key not in topic_ids},
    )


def joined(topics: Mapping[UUID, TopicPartitions], more: Mapping[UUID, TopicPartitions]) -> dict[UUID, TopicPartitions]:
    both = dict(topics)
    for topic_id, topic in more.items():
        both[topic_id] = TopicPartitions(topic.name, _partitions(topics, topic_id) | topic.partitions)
    return both


def _partitions(topics: Mapping[UUID, TopicPartitions], topic_id: UUID) -> frozenset[int]:
    known = topics.get(topic_id)
    return frozenset() if known is None else known.partitions
