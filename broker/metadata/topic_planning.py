"""Checks what CreateTopics and CreatePartitions ask for (Kafka's `ReplicationControlManager`)."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from random import Random
from typing import Protocol

from broker.config.broker_config import BrokerConfig
from broker.config.topic_config import parse_topic_configs
from broker.metadata.topics import PartitionAssignment, Topic, Topics, assign
from metadata import topic_names
from protocol import uuids
from protocol.errors import (
    InvalidConfiguration,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    Timeout,
    TopicExists,
    UnknownServerError,
)

MAX_PARTITIONS_PER_REQUEST = 10_000
MAX_RECORDS_PER_REQUEST = 10_000

MOST_PLACED = 1 << 28
"""Partitions of one topic beyond which Kafka's controller, with its usual heap of 1 GiB, runs out of memory.

Seen from twice as many on; with fewer, from some six million on, it did not answer within half a minute.
"""

BY_DEFAULT = -1
"""Leaves a partition count or replication factor to the broker."""


class PlanningNode(Protocol):
    """The node as planning sees it."""

    config: BrokerConfig
    node_id: int
    random: Random
    topics: Topics


class OutOfMemoryError(UnknownServerError):
    """Fails the whole request, as it does in Kafka."""


def require_memory(count: int) -> None:
    """Raises OutOfMemoryError for more partitions of one topic than Kafka's controller can place."""
    if count > MOST_PLACED:
        raise OutOfMemoryError


def require_time_left(timeout: datetime.timedelta) -> None:
    """Raises Timeout for a request that allows no time: Kafka's controller never starts on it."""
    if timeout <= datetime.timedelta(0):
        raise Timeout


def check_partition_total(count: int) -> None:
    """Raises PolicyViolation for more partitions than one request may create, counted in 32 bits as in Kafka."""
    if (count + (1 << 31)) % (1 << 32) - (1 << 31) > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolation("Excessively large number of partitions per request.")


def check_record_total(count: int) -> None:
    """Raises PolicyViolation for more records of a request than KRaft writes: one per topic, partition and setting."""
    if count > MAX_RECORDS_PER_REQUEST:
        raise PolicyViolation("Unable to perform excessively large batch operation.")


def check_replicas(replicas: Sequence[int], node_ids: Set[int]) -> None:
    """Raises InvalidReplicaAssignment unless `replicas` are different nodes of the cluster, and at least one."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in node_ids:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id


def plan_topic(
    node: PlanningNode,
    name: str,
    *,
    partition_count: int = BY_DEFAULT,
    replication_factor: int = BY_DEFAULT,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Iterable[tuple[str, str | None]] = (),
    beside: Collection[str] = (),
) -> Topic:
    """The topic that would be created; `assignments` are (partition, replicas). Raises KafkaError for the first fault.

    `beside` are the other topics of the same request, with which its name may collide.
    """
    _check_name(node, name, beside)
    overrides = _overrides(configs)
    if overrides:  # what the broker has may be wrong for a topic; without any override Kafka does not look
        parse_topic_configs(node.config, overrides)
    if assignments:
        partitions = _assigned(node, partition_count, replication_factor, assignments)
    else:
        partitions = _placed(node, partition_count, replication_factor)
    return Topic(name, uuids.random_uuid(node.random), partitions, overrides)


def _check_name(node: PlanningNode, name: str, beside: Collection[str]) -> None:
    if node.topics.get(name) is not None:
        raise TopicExists(f"Topic '{name}' already exists.")
    existing = node.topics.colliding_with(name)
    if existing is not None and existing not in beside:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {existing}")
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise InvalidTopic(reason)


def _overrides(configs: Iterable[tuple[str, str | None]]) -> Mapping[str, str]:
    """The last value given for each name, which is the one Kafka takes."""
    pairs = list(configs)
    nulls = [name for name, value in pairs if value is None]
    if nulls:
        raise InvalidConfiguration(f"Null value not supported for topic configs: {','.join(nulls)}")
    return {name: value for name, value in pairs if value is not None}


def _assigned(
    node: PlanningNode, partition_count: int, replication_factor: int, assignments: Sequence[tuple[int, Sequence[int]]]
) -> tuple[PartitionAssignment, ...]:
    if replication_factor != BY_DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if partition_count != BY_DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    by_index: dict[int, PartitionAssignment] = {}
    for index, replicas in assignments:
        if index in by_index:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
        check_replicas(replicas, {node.node_id})
        by_index[index] = assign(replicas)
    if set(by_index) != set(range(len(by_index))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return tuple(by_index[index] for index in range(len(by_index)))


def _placed(node: PlanningNode, partition_count: int, replication_factor: int) -> tuple[PartitionAssignment, ...]:
    if replication_factor < BY_DEFAULT or replication_factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if partition_count < BY_DEFAULT or partition_count == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if partition_count == BY_DEFAULT:
        partition_count = node.config.integer("num.partitions")
    if replication_factor == BY_DEFAULT:
        replication_factor = node.config.integer("default.replication.factor")
    if replication_factor > 1:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only 1 broker(s) are registered."
        )
    return (assign([node.node_id]),) * partition_count


def growth(topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None) -> int:
    """The number of partitions to add to reach `count`. Raises InvalidPartitions or InvalidReplicaAssignment."""
    current = len(topic.partitions)
    if count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if count < current:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {current} partition(s); {count} would not be an increase."
        )
    additional = count - current
    if assignments is not None and len(assignments) != additional:
        raise InvalidReplicaAssignment(
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified."
        )
    return additional


def plan_partitions(
    node_id: int, additional: int, assignments: Sequence[Sequence[int]] | None
) -> tuple[PartitionAssignment, ...]:
    """The partitions that would be added. Raises InvalidReplicaAssignment."""
    if assignments is None:
        return (assign([node_id]),) * additional
    for replicas in assignments:
        check_replicas(replicas, {node_id})
    return tuple(assign(replicas) for replicas in assignments)
