"""CreateTopics 2-7 (KIP-4, KIP-195, KIP-464, KIP-525), decided by `controller.create_topics`.

Deviation: the timeout is not watched while the metadata log is flushed. A timeout of zero or less expires at once, as
in Kafka.
"""

from __future__ import annotations

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse

from broker.request_context import RequestContext
from controller.create_topics import decide, failed
from protocol.durations import ZERO
from protocol.errors import KafkaError

FIRST_VERSION_THAT_KNOWS_QUOTAS = 6


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    controller = ctx.controller
    quota = ctx.local.throttling.mutations(ctx, strict=ctx.version >= FIRST_VERSION_THAT_KNOWS_QUOTAS)
    return await controller.submit(lambda image: decide(image, request, controller.around, quota), ctx)


def error_response(_ctx: RequestContext, request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(throttle_time=ZERO, topics=tuple(failed(t.name, error) for t in request.topics))
