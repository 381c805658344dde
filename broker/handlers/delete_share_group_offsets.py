"""DeleteShareGroupOffsets 0 (KIP-932; Kafka's `GroupCoordinatorService.deleteShareGroupOffsets`).

The group must have no members.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.delete_share_group_offsets.v0 import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kio.schema.delete_share_group_offsets.v0.response import DeleteShareGroupOffsetsResponseTopic
from kio.schema.errors import ErrorCode

from broker.handlers.share_requests import require_share_groups
from broker.request_context import RequestContext
from coordinator.group.share_offsets import note_deleted, states_to_delete
from metadata.acls import AclOperation, ResourceType
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.durations import ZERO
from protocol.errors import KafkaError, TopicAuthorization, UnknownTopicOrPartition
from protocol.uuids import ZERO as NO_TOPIC


async def delete_share_group_offsets(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    require_share_groups(ctx)
    group_id = request.group_id
    groups = ctx.coordinators.groups
    names = {topic.topic_name for topic in request.topics}
    known = await groups.read(group_id, lambda state: states_to_delete(state.groups, group_id, names))
    topics = []
    deleted = set()
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        if not ctx.allows(AclOperation.READ, ResourceType.TOPIC, name):
            topics.append(_topic(name, NO_TOPIC, TopicAuthorization()))
            continue
        if name not in known or ctx.image.topics.get(name) is None:
            topics.append(_topic(name, NO_TOPIC, UnknownTopicOrPartition()))
            continue
        topic_id, partitions = known[name]
        try:
            for index in partitions:
                await ctx.local.share.states.forget(SharePartitionKey(group_id, topic_id, index))
        except KafkaError as error:
            topics.append(_topic(name, topic_id, error))
        else:
            deleted.add(topic_id)
            topics.append(_topic(name, topic_id))
    if deleted:
        await groups.write(group_id, lambda state: note_deleted(state.groups, group_id, deleted))
    return DeleteShareGroupOffsetsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, responses=tuple(topics)
    )


def _topic(name: str, topic_id: UUID, error: KafkaError | None = None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
