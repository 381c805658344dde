"""A leadership that an operator or a test gives to one of the replicas in sync. Kafka has no such request."""

from __future__ import annotations

from controller.decision import ConfigSchema, Decision
from controller.replica_rules import ReplicaRules
from metadata.image import MetadataImage
from protocol.errors import EligibleLeadersNotAvailable, UnknownTopicOrPartition
from protocol.metadata.topics import PartitionChangeRecord


def decide(image: MetadataImage, schema: ConfigSchema, name: str, index: int, broker_id: int) -> Decision[None]:
    """Let the broker lead the partition. Raises UnknownTopicOrPartition, EligibleLeadersNotAvailable."""
    topic = image.topics.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        raise UnknownTopicOrPartition(f"There is no partition {name}-{index}.")
    if partition.leader == broker_id:
        return Decision([], None)
    if broker_id not in partition.isr or not ReplicaRules(image, schema).may_lead(partition, broker_id):
        raise EligibleLeadersNotAvailable(
            f"Broker {broker_id} cannot lead {name}-{index}: expected one of its replicas that are in sync, which are "
            f"{', '.join(map(str, partition.isr)) or 'none'}."
        )
    return Decision([PartitionChangeRecord(topic_id=topic.id, partition_id=index, leader=broker_id)], None)
