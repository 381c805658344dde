"""InitializeShareGroupState 0 (KIP-932; Kafka's `ShareCoordinatorService.initializeState`)."""

from __future__ import annotations

from typing import Any

from kio.schema.initialize_share_group_state.v0 import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kio.schema.initialize_share_group_state.v0.response import InitializeStateResult
from kio.schema.initialize_share_group_state.v0.response import PartitionResult as InitializedPartitionResult

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import KafkaError


async def initialize_share_group_state(
    ctx: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.initialize_at(key, partition.state_epoch, partition.start_offset)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _result, allows_empty=True)
    return InitializeShareGroupStateResponse(
        results=tuple(InitializeStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _result(index: int, answer: KafkaError | None) -> InitializedPartitionResult:
    return InitializedPartitionResult(**error_fields(index, answer))
