"""AlterShareGroupOffsets 0 (KIP-932; Kafka's `GroupCoordinatorService.alterShareGroupOffsets`).

The group must have no members; one that does not exist is made. Offsets are taken as given.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.alter_share_group_offsets.v0 import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from broker.handlers.share_requests import require_share_groups
from broker.request_context import RequestContext
from coordinator.group.share_offsets import begin_altering, note_altered
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_group_records import TopicPartitions
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.durations import ZERO
from protocol.errors import KafkaError, TopicAuthorization, UnknownTopicOrPartition
from protocol.uuids import ZERO as NO_TOPIC


async def alter_share_group_offsets(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    require_share_groups(ctx)
    group_id = request.group_id
    groups = ctx.coordinators.groups
    epoch = await groups.read(group_id, lambda state: begin_altering(state.groups, group_id))
    altered: dict[UUID, TopicPartitions] = {}
    topics = []
    for wanted in request.topics:
        topic = ctx.image.topics.get(wanted.topic_name)
        topic_id = NO_TOPIC if topic is None else topic.id
        partitions = []
        done = set()
        for partition in wanted.partitions:
            key = SharePartitionKey(group_id, topic_id, partition.partition_index)
            try:
                if not ctx.allows(AclOperation.READ, ResourceType.TOPIC, wanted.topic_name):
                    raise TopicAuthorization
                if topic is None or partition.partition_index not in topic.partitions:
                    raise UnknownTopicOrPartition
                await ctx.local.share.states.initialize_at(key, epoch, partition.start_offset)
            except KafkaError as error:
                partitions.append(_partition(partition.partition_index, error))
            else:
                done.add(partition.partition_index)
                partitions.append(_partition(partition.partition_index, None))
        if done:
            altered[topic_id] = TopicPartitions(wanted.topic_name, frozenset(done))
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=wanted.topic_name, topic_id=topic_id, partitions=tuple(partitions)
            )
        )
    if altered:
        await groups.write(group_id, lambda state: note_altered(state.groups, group_id, altered))
    return AlterShareGroupOffsetsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, responses=tuple(topics)
    )


def _partition(index: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
