"""What offsets and the admin APIs need to know about groups.

A group exists from its first GroupMetadata record, its first member, or its first committed offset, until its tombstone
is replayed.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple
from uuid import UUID


class GroupType(Enum):
    """Which protocol the group speaks; the value is the name on the wire (Kafka's Group.GroupType)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class OwnedPartition(NamedTuple):
    """A partition whose offset is to be committed; the topic id is None where it is not known."""

    topic: str
    topic_id: UUID | None
    partition: int
