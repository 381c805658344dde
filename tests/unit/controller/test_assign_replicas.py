"""AssignReplicasToDirs: what follows from the directories that a broker names (KIP-858)."""

from __future__ import annotations

from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.request import DirectoryData, PartitionData, TopicData

from controller.assign_replicas import decide
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.metadata.topics import TopicRecord
from tests.unit.controller.images import Schema, after, broker, directory, image_of, partition

TOPIC_ID = UUID(int=7)
LOST = UUID(int=99)


def assigned(image: MetadataImage, to: UUID) -> PartitionRegistration:
    """Partition 0 once broker 2 has said that its replica lies in `to`."""
    partitions = (PartitionData(partition_index=0),)
    request = AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=5,
        directories=(DirectoryData(id_=to, topics=(TopicData(topic_id=TOPIC_ID, partitions=partitions),)),),
    )
    topic = after(image, decide(image, request, Schema())).topics.by_id(TOPIC_ID)
    assert topic is not None
    return topic.partitions[0]


def image_with(leader: int, isr: tuple[int, ...], of_broker_2: UUID) -> MetadataImage:
    return image_of(
        broker(1, fenced=leader < 0),
        broker(2),
        TopicRecord(name="t", topic_id=TOPIC_ID),
        partition(7, 0, [1, 2], leader=leader, isr=isr, directories=(directory(1), of_broker_2)),
    )


def test_replica_that_was_taken_to_be_on_a_lost_disk_leads_a_partition_without_a_leader() -> None:
    state = assigned(image_with(-1, (2,), LOST), directory(2))
    assert state.directory_of(2) == directory(2)
    assert (state.leader, state.isr) == (2, (2,))


def test_assigned_directory_of_a_partition_with_a_leader_moves_no_leader() -> None:
    state = assigned(image_with(1, (1, 2), LOST), directory(2))
    assert (state.directory_of(2), state.leader, state.isr) == (directory(2), 1, (1, 2))


def test_replica_in_a_directory_that_is_not_online_leaves_the_isr() -> None:
    state = assigned(image_with(1, (1, 2), directory(2)), LOST)
    assert (state.directory_of(2), state.leader, state.isr) == (LOST, 1, (1,))
