"""Conversion between members of the classic protocol and of a consumer group: their bytes, and topic ids."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from coordinator.group.classic.messages import MemberProtocol
from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.topics_port import TopicsPort
from protocol.consumer_protocol import deserialize_version, serialize_assignment
from protocol.coordinator_records.consumer_group_records import ClassicMemberMetadata


def by_topic_id(partitions: Sequence[tuple[str, Sequence[int]]], topics: TopicsPort) -> Partitions:
    """Partitions by topic names, without topics that do not exist."""
    found: dict[UUID, frozenset[int]] = {}
    for name, indexes in partitions:
        image = topics.by_name(name)
        if image is not None:
            found[image.id] = frozenset(indexes)
    return found


def encoded_assignment(partitions: Partitions, metadata: bytes, topics: TopicsPort) -> bytes:
    """The assignment as a classic member reads it, in the version of its own metadata. Raises SchemaError."""
    found = [(image.name, sorted(indexes)) for topic, indexes in partitions.items() if (image := topics.by_id(topic))]
    return serialize_assignment(deserialize_version(metadata), sorted(found))


def classic_metadata(session_timeout_ms: int, protocols: Sequence[MemberProtocol]) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms, tuple((protocol.name, protocol.metadata) for protocol in protocols)
    )


def protocols_of(member: ConsumerMember) -> tuple[MemberProtocol, ...]:
    assert member.classic is not None, "asked of members of the classic protocol alone"
    return tuple(MemberProtocol(name, metadata) for name, metadata in member.classic.protocols)
