"""CreateTopics 2-7 (KIP-4, KIP-195, KIP-464, KIP-525), decided by `controller.create_topics`.

Deviation: the timeout is not watched while the metadata log is flushed. A timeout of zero or less expires at once, as
in Kafka.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.create_topics import decide as decide_creation
from metadata.acls import AclOperation, ResourceType

FIRST_VERSION_THAT_KNOWS_QUOTAS = 6


async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    controller = ctx.controller
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    response = await controller.submit(lambda image: decide_creation(image, request, controller.around, quota))
    return response if ctx.permissions is None else _without_hidden_configs(ctx, response)


def _without_hidden_configs(ctx: RequestContext, response: CreateTopicsResponse) -> CreateTopicsResponse:
    """The response without the configurations that the client may not describe."""
    return replace(
        response,
        topics=tuple(
            topic
            if topic.error_code is not ErrorCode.none
            or ctx.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, log_denied=False)
            else replace(
                topic,
                num_partitions=-1,
                replication_factor=-1,
                configs=(),
                topic_config_error_code=ErrorCode.topic_authorization_failed,
            )
            for topic in response.topics
        ),
    )
