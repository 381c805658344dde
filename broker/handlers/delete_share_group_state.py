"""DeleteShareGroupState 0 (KIP-932; Kafka's `ShareCoordinatorService.deleteState`): for the leaders of partitions."""

from __future__ import annotations

from typing import Any

from kio.schema.delete_share_group_state.v0 import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kio.schema.delete_share_group_state.v0.response import DeleteStateResult
from kio.schema.delete_share_group_state.v0.response import PartitionResult as DeletedPartitionResult

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.errors import KafkaError


async def delete_share_group_state(
    ctx: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.forget(key)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _result)
    return DeleteShareGroupStateResponse(
        results=tuple(DeleteStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _result(index: int, answer: KafkaError | None) -> DeletedPartitionResult:
    return DeletedPartitionResult(**error_fields(index, answer))
