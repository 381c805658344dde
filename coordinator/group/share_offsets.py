"""Start offsets of a share group that an operator sets or deletes, while the group has no members (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from coordinator.group.directory import GroupDirectory
from coordinator.group.share import records
from coordinator.group.share.group import FIRST_EPOCH, ShareGroup
from coordinator.group.share.initialization import joined
from coordinator.runtime.outcome import Outcome
from protocol.coordinator_records.share_records import TopicPartitions
from protocol.errors import GroupIdNotFound, GroupNotEmpty, InvalidGroupId


def begin_altering(groups: GroupDirectory, group_id: str) -> int:
    """The state epoch for a start offset that is to be set. Raises GroupNotEmpty, GroupIdNotFound, InvalidGroupId."""
    if not group_id:
        raise InvalidGroupId
    groups.require_share(group_id)
    group = groups.share.find(group_id)
    if group is None:
        return FIRST_EPOCH
    _require_empty(group)
    return group.epoch


def note_altered(groups: GroupDirectory, group_id: str, topics: Mapping[UUID, TopicPartitions]) -> Outcome[None]:
    """The partitions have a state now. Makes the group if there is none. Raises what `begin_altering` does."""
    begin_altering(groups, group_id)
    group = groups.share.find(group_id)
    known = ShareGroup(group_id) if group is None else group
    state = known.state._replace(initialized=joined(known.state.initialized, topics))
    return Outcome([records.state(group_id, state)])


def states_to_delete(groups: GroupDirectory, group_id: str, names: set[str]) -> dict[str, tuple[UUID, frozenset[int]]]:
    """The partitions with a state of these topics, by name.

    Raises GroupIdNotFound, GroupNotEmpty, InvalidGroupId.
    """
    if not group_id:
        raise InvalidGroupId
    groups.require_share(group_id)
    group = groups.share.get(group_id)
    _require_empty(group)
    return {topic.name: (topic_id, topic.partitions) for topic_id, topic in group.states() if topic.name in names}


def note_deleted(groups: GroupDirectory, group_id: str, topic_ids: set[UUID]) -> Outcome[None]:
    """The topics have no state any more."""
    group = groups.share.find(group_id)
    if group is None:
        raise GroupIdNotFound
    return Outcome([records.state(group_id, records.without_topics(group.state, topic_ids))])


def _require_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise GroupNotEmpty
