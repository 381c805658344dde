"""Whether a classic group has room for another member (`group.max.size`, KIP-389)."""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.states import GroupState


def has_room(group: ClassicGroup, member_id: str, limit: int) -> bool:
    """Whether the member (an empty id: a new one) may join.

    During a rebalance only members that have joined count: if the limit was lowered below the group's size, the last
    ones to join are refused.
    """
    member = group.members.get(member_id)
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join < limit
        case _:
            return member is not None or len(group.members) < limit
