"""DeleteGroups of share groups (KIP-932): the share coordinator forgets first, else the name could not be used again.

How it works: `begin_deleting` notes that the states of the groups' topics are on their way out (`deleting`), so that a
member that joins meanwhile has them made anew. Once the share coordinator has forgotten them, the groups are deleted as
any other. If it cannot, they stay, and the next DeleteGroups tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share import records
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.groups import ShareGroups
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.coordinator_records.share_records import ShareGroupStatePartitionMetadataValue

States = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


class Begun(NamedTuple):
    """The error codes of groups that are deleted or cannot be, and the states of those that wait for them to go."""

    codes: dict[str, ErrorCode]
    waiting: dict[str, States]


def begin_deleting(shard: GroupCoordinatorShard, group_ids: Iterable[str]) -> Outcome[Begun]:
    """Delete the groups that the share coordinator knows nothing of."""
    groups = shard.groups.share
    found = {group_id: groups.find(group_id) for group_id in group_ids}
    empty = {group_id: group for group_id, group in found.items() if group is not None and group.is_empty}
    states = {group_id: _states(groups, group) for group_id, group in empty.items()}
    waiting = {group_id: topics for group_id, topics in states.items() if topics}
    outcome = shard.offsets.delete_groups(group_id for group_id in group_ids if group_id not in waiting)
    codes = outcome.reply
    assert isinstance(codes, dict)
    written = [*outcome.records, *(_deleting(empty[group_id]) for group_id in waiting)]
    return Outcome(written, Begun(codes, waiting), outcome.effects)


def _states(groups: ShareGroups, group: ShareGroup) -> States:
    """What the share coordinator may know, also of what was on its way out before."""
    found = {topic_id: topic.partitions for topic_id, topic in group.states()}
    for topic_id in group.state.deleting:
        topic = groups.topics.by_id(topic_id)
        if topic is not None:
            found[topic_id] = found.get(topic_id, frozenset()) | frozenset(range(topic.partition_count))
    return found


def _deleting(group: ShareGroup) -> CoordinatorRecord:
    names = {topic_id: topic.name for topic_id, topic in group.states()}
    value = ShareGroupStatePartitionMetadataValue({}, {}, {**group.state.deleting, **names})
    return records.state(group.group_id, value)
