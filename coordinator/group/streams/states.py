"""The states of a member of a streams group."""

from __future__ import annotations

from enum import IntEnum


class MemberState(IntEnum):
    """Kafka's streams `MemberState`; the value is what records hold, and not that of consumer groups."""

    STABLE = 1
    """The member has the target assignment of its epoch."""
    UNREVOKED_TASKS = 2
    """It must give up tasks before it can go on to the next epoch."""
    UNRELEASED_TASKS = 3
    """It is at the target's epoch, but others have not given up all of its target yet."""
    UNKNOWN = 127
    """A state of a later version of Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN = frozenset(MemberState)
