"""States and acknowledgements of single records of a share partition (KIP-932, Kafka's `RecordState`)."""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """Numbers as in the records of `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again and holds nothing up."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    """What a consumer says of a record; numbers as on the wire (ShareFetch, ShareAcknowledge)."""

    GAP = 0
    """There is no such record, for instance because it was compacted away."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class LetterCause(IntEnum):
    """Why a record is given up and goes to the dead letter queue."""

    REJECTED = 0
    TOO_MANY_DELIVERIES = 1
