"""AlterPartition: a leader changes the ISR of its partitions (KIP-497, KIP-704, KIP-841, KIP-903).

Source: Kafka's `ReplicationControlManager.alterPartition`. Versions 2 and 3 are served; in version 2 the brokers of the
new ISR come without epochs, which are then not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
from kio.schema.alter_partition.v3.request import BrokerState
from kio.schema.alter_partition.v3.request import PartitionData as Wanted
from kio.schema.alter_partition.v3.response import PartitionData, TopicData
from kio.schema.errors import ErrorCode

from controller.decision import ConfigSchema, Decision
from controller.partition_change import RECOVERED, RECOVERING, Election, PartitionChange
from controller.registration import require_epoch
from controller.replica_rules import ReplicaRules
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, TopicImage
from protocol.durations import ZERO
from protocol.metadata.topics import LEADER_UNCHANGED

ANY_EPOCH = -1
NOBODY = 0
"""The leader in the answer for a partition that has an error; Kafka leaves its fields at 0."""


def decide(
    image: MetadataImage, request: AlterPartitionRequest, schema: ConfigSchema
) -> Decision[AlterPartitionResponse]:
    """Every change that can be made is; the response has each partition's state or error.

    Raises StaleBrokerEpoch.
    """
    require_epoch(image, request.broker_id, request.broker_epoch)
    rules = ReplicaRules(image, schema)
    records: list[Any] = []
    topics = []
    for asked in request.topics:
        topic = image.topics.by_id(asked.topic_id)
        if topic is None:
            results = [_failed(each, ErrorCode.unknown_topic_id) for each in asked.partitions]
        else:
            results = [_altered(rules, request.broker_id, topic, each, records) for each in asked.partitions]
        topics.append(TopicData(topic_id=asked.topic_id, partitions=tuple(results)))
    response = AlterPartitionResponse(throttle_time=ZERO, error_code=ErrorCode.none, topics=tuple(topics))
    return Decision(records, response)


def _altered(
    rules: ReplicaRules, broker_id: int, topic: TopicImage, wanted: Wanted, records: list[Any]
) -> PartitionData:
    """Make one change, if it can be made: add its record to `records`."""
    index = wanted.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        return _failed(wanted, ErrorCode.unknown_topic_or_partition)
    error = next(_errors(rules, broker_id, partition, wanted), None)
    if error is not None:
        return _failed(wanted, error)
    change = PartitionChange(rules, topic, index)
    change.isr = _ids(wanted.new_isr_with_epochs)
    change.recovery_state = wanted.leader_recovery_state
    if rules.may_elect_uncleanly(topic.name):
        change.election = Election.UNCLEAN
    record = change.record()
    if record is not None:
        records.append(record)
        partition = partition.merge(record)
        if record.leader not in (broker_id, LEADER_UNCHANGED):
            # The end of a reassignment made another the leader: there are a record and an error, as in Kafka.
            return _failed(wanted, ErrorCode.new_leader_elected)
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.none,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _errors(
    rules: ReplicaRules, broker_id: int, partition: PartitionRegistration, wanted: Wanted
) -> Iterator[ErrorCode]:
    """Yield the errors of the change, the first one first."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        yield ErrorCode.not_controller  # the leader knows of what this controller has not seen
    if wanted.leader_epoch < partition.leader_epoch:
        yield ErrorCode.fenced_leader_epoch
    if broker_id != partition.leader:
        yield ErrorCode.invalid_request
    if wanted.partition_epoch < partition.partition_epoch:
        yield ErrorCode.invalid_update_version
    isr = _ids(wanted.new_isr_with_epochs)
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        yield ErrorCode.invalid_request
    if wanted.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        yield ErrorCode.invalid_request
    if not all(_is_eligible(rules, each) for each in wanted.new_isr_with_epochs):
        yield ErrorCode.ineligible_replica


def _is_eligible(rules: ReplicaRules, wanted: BrokerState) -> bool:
    broker = rules.image.cluster.brokers.get(wanted.broker_id)
    return broker is not None and broker.is_active and wanted.broker_epoch in (ANY_EPOCH, broker.epoch)


def _ids(brokers: Sequence[BrokerState]) -> tuple[int, ...]:
    return tuple(each.broker_id for each in brokers)


def _failed(wanted: Wanted, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition_index,
        error_code=error,
        leader_id=NOBODY,
        leader_epoch=0,
        partition_epoch=0,
    )
