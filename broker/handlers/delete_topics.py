"""DeleteTopics 1-6 (KIP-4, KIP-516), decided by `controller.delete_topics`."""

from __future__ import annotations

from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult

from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.delete_topics import decide as decide_deletion
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, TopicAuthorization, TopicDeletionDisabled

FIRST_VERSION_THAT_KNOWS_DISABLED = 3
FIRST_VERSION_THAT_KNOWS_QUOTAS = 5


async def _delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not ctx.local.config.boolean("delete.topic.enable"):
        if ctx.version < FIRST_VERSION_THAT_KNOWS_DISABLED:
            raise InvalidRequest("Topic deletion is disabled.")
        raise TopicDeletionDisabled
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await ctx.controller.submit(lambda image: decide_deletion(image, request, quota))


def _failed_as_a_whole(ctx: RequestContext, request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        throttle_time=ZERO,
        responses=tuple(
            DeletableTopicResult(
                name=topic.name if topic.topic_id is None else _name_of(ctx, topic, error),
                topic_id=topic.topic_id,
                error_code=error.code,
                error_message=error.explicit_message,
            )
            for topic in request.topics
        ),
    )


def _name_of(ctx: RequestContext, asked: DeleteTopicState, error: KafkaError) -> str | None:
    """The name of a topic that is asked for by id: shown to who may describe it, but not delete it."""
    topic = ctx.image.topics.by_id(asked.topic_id) if isinstance(error, TopicAuthorization) else None
    if topic is None or not ctx.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return asked.name
    return topic.name


delete_topics = Handler(_delete_topics, failed=_failed_as_a_whole)
