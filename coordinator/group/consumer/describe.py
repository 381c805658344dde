"""A consumer group as ConsumerGroupDescribe reports it (Kafka's `ConsumerGroup.asDescribedGroup`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.assignment import NO_PARTITIONS, Partitions
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.target import preferred_assignor
from coordinator.group.consumer.topics_port import TopicsPort


class TopicAssignment(NamedTuple):
    """Partitions of one existing topic."""

    topic_id: UUID
    topic: str
    partitions: Sequence[int]


class DescribedMember(NamedTuple):
    """A member with its current and its target assignment."""

    member: ConsumerMember
    assigned: Sequence[TopicAssignment]
    target: Sequence[TopicAssignment]


class DescribedConsumerGroup(NamedTuple):
    """A group; `assignor` is the one that its members prefer."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[DescribedMember]


def describe(groups: ConsumerGroups, group: ConsumerGroup) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(
        group.state_name,
        group.epoch,
        group.assignment_epoch,
        preferred_assignor(group.members.values(), groups.config.assignors),
        [
            DescribedMember(
                member,
                _named(_held(member), groups.topics),
                _named(group.target.get(member.member_id, NO_PARTITIONS), groups.topics),
            )
            for member in group.members.values()
        ],
    )


def _held(member: ConsumerMember) -> Partitions:
    """What the member has, with what it is to give up and has not yet."""
    topics = dict.fromkeys((*member.assigned, *member.pending_revocation))
    none = frozenset[int]()
    return {topic: member.assigned.get(topic, none) | member.pending_revocation.get(topic, none) for topic in topics}


def _named(partitions: Partitions, topics: TopicsPort) -> list[TopicAssignment]:
    """The partitions by their topics' names, without topics that no longer exist."""
    found = [
        TopicAssignment(topic_id, image.name, sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (image := topics.by_id(topic_id)) is not None
    ]
    return sorted(found, key=lambda assignment: assignment.topic)
