"""The states of a consumer group and of its members; both derive from the epochs and the assignments."""

from __future__ import annotations

from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """Kafka's `ConsumerGroup.ConsumerGroupState`; the value is the name on the wire and in logs."""

    EMPTY = "Empty"
    """No members."""
    ASSIGNING = "Assigning"
    """The target assignment is older than the group epoch; the next heartbeat computes a new one."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target assignment yet."""
    STABLE = "Stable"


class MemberState(IntEnum):
    """Kafka's `MemberState`; the value is what records hold."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it can go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is at the target's epoch, but other members have not given up all of its target yet."""
    UNKNOWN = 127
    """A state of a later version of Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN = frozenset(MemberState)
