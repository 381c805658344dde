"""Which partitions the share coordinator has a state of, for a share group (`ShareGroupStatePartitionMetadata`).

A partition goes from `initializing`, when a member subscribes to its topic, to `initialized`, when the share
coordinator has made its state. Only then it is assigned. Requests that are lost are sent again with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import structlog

from coordinator.group.share.group import ShareGroup
from coordinator.group.share.groups import ShareGroups
from coordinator.group.share.records import state as state_record
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.coordinator_records.share_records import TopicPartitions
from protocol.errors import KafkaError

logger = structlog.get_logger(__name__)

RETRY_MS = 30_000.0
"""After this the share coordinator is asked again (`group.share.initialize.retry.interval.ms`)."""


def missing(groups: ShareGroups, group: ShareGroup, names: frozenset[str]) -> dict[UUID, TopicPartitions]:
    """The partitions of subscribed topics that have no state, also those that are asked for since long."""
    late = groups.context.clock.monotonic_ms() >= group.initializing_until_ms
    found = {}
    for name in names:
        topic = groups.topics.by_name(name)
        if topic is None:
            continue
        known = set(_partitions(group.state.initialized, topic.id))
        if not late:
            known |= _partitions(group.state.initializing, topic.id)
        wanted = frozenset(range(topic.partition_count)) - known
        if wanted:
            found[topic.id] = TopicPartitions(name, wanted)
    return found


def begin(group: ShareGroup, wanted: Mapping[UUID, TopicPartitions]) -> CoordinatorRecord:
    """Note that the share coordinator is asked."""
    return state_record(group.group_id, group.state._replace(initializing=joined(group.state.initializing, wanted)))


def ask(groups: ShareGroups, group_id: str, wanted: Mapping[UUID, TopicPartitions], state_epoch: int) -> None:
    """Ask the share coordinator; what comes of it is an operation of its own, perhaps on the groups as loaded anew."""
    group = groups.find(group_id)
    if group is None:
        return
    group.initializing_until_ms = groups.context.clock.monotonic_ms() + RETRY_MS

    def done(error: KafkaError | None) -> None:
        groups.context.tell(lambda state: _done(state.groups.share, group_id, wanted, error))

    topics = {topic_id: topic.partitions for topic_id, topic in wanted.items()}
    groups.state.initialize(group_id, topics, state_epoch, done)


def _done(
    groups: ShareGroups, group_id: str, wanted: Mapping[UUID, TopicPartitions], error: KafkaError | None
) -> Outcome[None]:
    group = groups.find(group_id)
    if group is None:
        return Outcome()
    group.initializing_until_ms = 0.0
    if error is not None:
        logger.warning("share partitions not initialized", group=group_id, error=str(error))
        return Outcome()
    initializing = group.state.initializing
    made = {
        topic_id: TopicPartitions(topic.name, topic.partitions & _partitions(initializing, topic_id))
        for topic_id, topic in wanted.items()
        if topic_id in initializing  # else the topic, or its state, was deleted meanwhile
    }
    state = group.state._replace(
        initializing=_without(initializing, made), initialized=joined(group.state.initialized, made)
    )
    return Outcome([state_record(group_id, state)] if made else ())


def _partitions(topics: Mapping[UUID, TopicPartitions], topic_id: UUID) -> frozenset[int]:
    known = topics.get(topic_id)
    return frozenset() if known is None else known.partitions


def joined(topics: Mapping[UUID, TopicPartitions], more: Mapping[UUID, TopicPartitions]) -> dict[UUID, TopicPartitions]:
    joined = dict(topics)
    for topic_id, topic in more.items():
        joined[topic_id] = TopicPartitions(topic.name, _partitions(topics, topic_id) | topic.partitions)
    return joined


def _without(
    topics: Mapping[UUID, TopicPartitions], less: Mapping[UUID, TopicPartitions]
) -> dict[UUID, TopicPartitions]:
    left = {
        topic_id: TopicPartitions(topic.name, topic.partitions - _partitions(less, topic_id))
        for topic_id, topic in topics.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
