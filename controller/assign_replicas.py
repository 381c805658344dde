"""AssignReplicasToDirs: a broker says in which of its directories replicas lie (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kio.schema.assign_replicas_to_dirs.v0.response import DirectoryData, PartitionData, TopicData
from kio.schema.errors import ErrorCode

from controller.broker_changes import image_after, updates
from controller.decision import ConfigSchema, Decision
from controller.partition_change import PartitionChange
from controller.registration import require_epoch
from controller.replica_rules import ReplicaRules, is_online
from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from metadata.topics import TopicImage
from protocol.durations import ZERO


def decide(
    image: MetadataImage, request: AssignReplicasToDirsRequest, schema: ConfigSchema
) -> Decision[AssignReplicasToDirsResponse]:
    """Note the directories. Raises StaleBrokerEpoch.

    A replica in one that is not online leaves its ISR. One in a directory that is online may lead a partition that has
    no leader; Kafka elects it only with the next other change.
    """
    broker = require_epoch(image, request.broker_id, request.broker_epoch)
    assigning = _Assigning(image, schema, broker)
    response = AssignReplicasToDirsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        directories=tuple(
            DirectoryData(
                id_=each.id_,
                topics=tuple(
                    TopicData(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            PartitionData(
                                partition_index=result.partition_index,
                                error_code=assigning.assign(topic.topic_id, result.partition_index, each.id_),
                            )
                            for result in topic.partitions
                        ),
                    )
                    for topic in each.topics
                ),
            )
            for each in request.directories
        ),
    )
    return Decision([*assigning.records, *assigning.elections()], response)


@dataclass(slots=True)
class _Assigning:
    """The assignments of one request.

    `offline` are the partitions whose replica lies in a directory that is not online, `leaderless` those without a
    leader whose replica lies in one that is.
    """

    image: MetadataImage
    schema: ConfigSchema
    broker: BrokerRegistration
    records: list[Any] = field(default_factory=list)
    offline: dict[tuple[UUID, int], None] = field(default_factory=dict)
    leaderless: dict[tuple[UUID, int], None] = field(default_factory=dict)

    def assign(self, topic_id: UUID | None, index: int, directory: UUID | None) -> ErrorCode:
        topic = self.image.topics.by_id(topic_id)
        if topic is None:
            return ErrorCode.unknown_topic_id
        partition = topic.partitions.get(index)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        if self.broker.id not in partition.replicas:
            return ErrorCode.not_leader_or_follower
        change = PartitionChange(ReplicaRules(self.image, self.schema), topic, index)
        change.directories = {self.broker.id: directory}
        record = change.record()
        if record is not None:
            self.records.append(record)
        if not is_online(self.broker, directory):
            self.offline[topic.id, index] = None
        elif not partition.has_leader:
            self.leaderless[topic.id, index] = None
        return ErrorCode.none

    def elections(self) -> Iterator[Any]:
        """The changes of leaders and ISRs that follow from the assignments."""
        image = image_after(self.image, self.records)
        going = ReplicaRules(image, self.schema, going=[self.broker.id])
        yield from updates(going, _places(image, self.offline), removed=[self.broker.id])
        yield from updates(ReplicaRules(image, self.schema), _places(image, self.leaderless))


def _places(image: MetadataImage, places: Iterable[tuple[UUID, int]]) -> Iterator[tuple[TopicImage, int]]:
    for topic_id, index in places:
        topic = image.topics.by_id(topic_id)
        if topic is not None:
            yield topic, index
