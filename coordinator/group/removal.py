"""The removal of a group whatever its state, for a test kit that cleans up after clients that are still there."""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup
from coordinator.runtime.outcome import Outcome
from protocol.errors import KafkaError


def remove_group(state: GroupCoordinatorShard, group_id: str) -> Outcome[bool]:
    """Delete a group with its offsets and members, whose waiting requests are answered UNKNOWN_MEMBER_ID.

    The answer is whether there was one. A member that asks again is unknown, and may found the group anew.
    """
    groups = state.groups
    newer = groups.consumer.find(group_id) or groups.share.find(group_id) or groups.streams.find(group_id)
    group = newer or groups.classic.find(group_id)
    if group is None:
        return Outcome(reply=False)
    member_ids = list(group.members)
    states = [*group.states()] if isinstance(group, ShareGroup) else []
    records = [*state.offsets.all_tombstones(group_id), *groups.deletion(group_id)]

    def effects(error: KafkaError | None) -> None:
        if error is not None:
            return
        if isinstance(group, ConsumerGroup):
            groups.consumer.timeouts.end_all(group_id, member_ids)
        elif isinstance(group, StreamsGroup):
            groups.streams.timeouts.end_all(group_id, member_ids)
        elif isinstance(group, ShareGroup):
            for member_id in member_ids:
                groups.share.end_session(group_id, member_id)
            groups.share.state.delete(group_id, {topic: known.partitions for topic, known in states})
        else:
            _dismiss(state, group)

    return Outcome(records, True, effects)


def _dismiss(state: GroupCoordinatorShard, group: ClassicGroup) -> None:
    """Let the members of a group that is gone go."""
    for member in list(group.members.values()):
        state.groups.classic.rebalances.remove(group, member)
