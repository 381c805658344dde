"""ListPartitionReassignments 0 (KIP-455). One node has nowhere to move a partition to, so nothing is in progress."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from broker.request_context import RequestContext
from protocol.durations import ZERO


def handle(ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=ZERO, error_code=ErrorCode.none, error_message=None, topics=()
    )
