"""AlterPartitionReassignments 0-1 (KIP-455, KIP-860), decided by `controller.reassignments`."""

from __future__ import annotations

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v1.response import ReassignableTopicResponse

from broker.request_context import RequestContext
from controller.reassignments import decide, result
from protocol.durations import ZERO
from protocol.errors import KafkaError


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await ctx.controller.submit(lambda image: decide(image, request, ctx.controller.around.schema), ctx)


def error_response(
    _ctx: RequestContext, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.explicit_message,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name, partitions=tuple(result(partition, error) for partition in topic.partitions)
            )
            for topic in request.topics
        ),
    )
