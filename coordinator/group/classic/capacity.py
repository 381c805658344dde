"""Room for one more in a classic group (`group.max.size`, KIP-389)."""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.states import GroupState


def has_room(group: ClassicGroup, member_id: str, limit: int) -> bool:
    """Whether the member (an empty id: a new one) may join.

    While a rebalance is prepared, those count who have joined: a group may be above a limit that was lowered, and it is
    the last to join that are turned away.
    """
    member = group.members.get(member_id)
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join < limit
        case _:
            return member is not None or len(group.members) < limit
