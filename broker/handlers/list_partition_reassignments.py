"""ListPartitionReassignments 0 (KIP-455), answered from the image."""

from __future__ import annotations

from kio.schema.list_partition_reassignments.v0 import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from broker.request_context import RequestContext
from controller.reassignments import listed


def list_partition_reassignments(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    return listed(ctx.image, asked)
