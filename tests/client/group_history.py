"""What a group's records in `__consumer_offsets` say happened to it."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from coordinator.runtime.runtime import partition_for
from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_METADATA,
)
from protocol.coordinator_records.group_records import GROUP_METADATA, OFFSET_COMMIT
from tests.client.groups import SECONDS, Member
from tests.messages import place_of


@dataclass(slots=True)
class History:
    """What a group's records in `__consumer_offsets` say, oldest first."""

    assignments: list[tuple[int, dict[str, frozenset[int]]]] = field(default_factory=list)
    """Generations, with the partitions of every member, while it was a classic group."""
    epochs: list[int] = field(default_factory=list)
    """Those of the group while it was a consumer group."""
    held: dict[str, tuple[int, frozenset[int], frozenset[int]]] = field(default_factory=dict)
    """The members of a consumer group at the end: epochs, what they are assigned, and what they are to give up."""
    told: dict[str, list[frozenset[int]]] = field(default_factory=dict)
    """Every assignment of every member of a consumer group."""
    commits: list[tuple[int, int]] = field(default_factory=list)
    """Partitions and offsets."""

    def committed(self) -> dict[int, int]:
        return dict(self.commits)

    def check(self, members: Iterable[Member]) -> None:
        """No partition twice in a generation; members own what they were assigned; no commit goes back."""
        assigned = {member_id: list(shares) for member_id, shares in self.told.items()}
        for generation, shares in self.assignments:
            together = [partition for share in shares.values() for partition in share]
            assert len(together) == len(set(together)), f"generation {generation}: {shares}"
            for member_id, share in shares.items():
                assigned.setdefault(member_id, []).append(share)
        generations = [generation for generation, _ in self.assignments]
        assert generations == sorted(generations)
        for member in members:
            for member_id, owned in member.told_owned:
                shares_of_it = assigned.get(member_id, [])
                assert not owned or any(owned <= share for share in shares_of_it), (member.kind, member_id, owned)
        last: dict[int, int] = {}
        for partition, offset in self.commits:
            assert offset >= last.get(partition, 0), f"partition {partition} went back from {last[partition]}"
            last[partition] = offset


def history(bootstrap: str, group: str, offsets_partitions: int = 50) -> History:
    """Read the partition of `__consumer_offsets` that the group belongs to, from its start to its end."""
    found = History()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    place = TopicPartition("__consumer_offsets", partition_for(group, offsets_partitions), OFFSET_BEGINNING)
    try:
        end = consumer.get_watermark_offsets(place, timeout=SECONDS)[1]
        consumer.assign([place])
        position = 0
        deadline = time.monotonic() + SECONDS
        while position < end:
            assert time.monotonic() < deadline, f"stuck at {position} of {end}"
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                key = message.key()
                assert key is not None
                position = place_of(message)[1] + 1
                _note(found, group, key, message.value())
    finally:
        consumer.close()
    return found


def _note(found: History, group: str, key: bytes, value: bytes | None) -> None:
    kind = int.from_bytes(key[:2], "big")
    if kind in CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.ids:
        place = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.decode_key(key)
        if place.group == group:
            _note_held(found, place.member_id, value)
    elif value is None:
        return
    elif kind in OFFSET_COMMIT.ids:
        commit = OFFSET_COMMIT.decode_key(key)
        if commit.group == group:
            found.commits.append((commit.partition, OFFSET_COMMIT.decode_value(value).offset))
    elif kind in CONSUMER_GROUP_METADATA.ids and CONSUMER_GROUP_METADATA.decode_key(key).group == group:
        found.epochs.append(CONSUMER_GROUP_METADATA.decode_value(value).epoch)
    elif kind in GROUP_METADATA.ids and GROUP_METADATA.decode_key(key).group == group:
        metadata = GROUP_METADATA.decode_value(value)
        if metadata.members:
            shares = {member.member_id: partitions_in(member.assignment) for member in metadata.members}
            found.assignments.append((metadata.generation, shares))


def _note_held(found: History, member_id: str, value: bytes | None) -> None:
    """Check that no partition is anybody else's at the time, be it on its way from there."""
    if value is None:
        found.held.pop(member_id, None)
        return
    current = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.decode_value(value)
    assigned, leaving = (
        frozenset(partition for partitions in places.values() for partition in partitions)
        for places in (current.assigned, current.pending_revocation)
    )
    for other, (_, its, its_leaving) in found.held.items():
        both = (assigned | leaving) & (its | its_leaving)
        assert other == member_id or not both, f"{both} are of {other} and of {member_id}"
    found.held[member_id] = (current.member_epoch, assigned, leaving)
    found.told.setdefault(member_id, []).append(assigned)


def partitions_in(assignment: bytes) -> frozenset[int]:
    """The partitions in a ConsumerProtocolAssignment of one topic; none in an empty one."""
    if not assignment:
        return frozenset()
    (topics,) = struct.unpack_from(">i", assignment, 2)
    if not topics:
        return frozenset()
    assert topics == 1
    (length,) = struct.unpack_from(">h", assignment, 6)
    (count,) = struct.unpack_from(">i", assignment, 8 + length)
    return frozenset(struct.unpack_from(f">{count}i", assignment, 12 + length))
