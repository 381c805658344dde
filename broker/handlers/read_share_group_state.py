"""ReadShareGroupState 0 (KIP-932; Kafka's `ShareCoordinatorService.readState`): for the leaders of partitions."""

from __future__ import annotations

from typing import Any

from kio.schema.read_share_group_state.v0 import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from kio.schema.read_share_group_state.v0.response import PartitionResult as ReadPartitionResult
from kio.schema.read_share_group_state.v0.response import ReadStateResult
from kio.schema.read_share_group_state.v0.response import StateBatch as ReadStateBatch

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from protocol.errors import KafkaError


async def read_share_group_state(
    ctx: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.read(key, partition.leader_epoch)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _result)
    return ReadShareGroupStateResponse(
        results=tuple(ReadStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _result(index: int, answer: ShareSnapshotValue | KafkaError) -> ReadPartitionResult:
    if isinstance(answer, KafkaError):
        return ReadPartitionResult(**error_fields(index, answer), state_epoch=0, start_offset=0, state_batches=())
    return ReadPartitionResult(
        **error_fields(index, answer),
        state_epoch=answer.state_epoch,
        start_offset=answer.start_offset,
        state_batches=tuple(
            ReadStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in answer.batches
        ),
    )
