"""WriteShareGroupState 0-1 (KIP-932; Kafka's `ShareCoordinatorService.writeState`): for the leaders of partitions."""

from __future__ import annotations

from typing import Any

from kio.schema.write_share_group_state.v1 import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from kio.schema.write_share_group_state.v1.response import PartitionResult as WrittenPartitionResult
from kio.schema.write_share_group_state.v1.response import WriteStateResult

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey
from protocol.coordinator_records.share_records import StateBatch as WrittenStateBatch
from protocol.errors import KafkaError


async def write_share_group_state(
    ctx: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.write(key, _wanted(partition))

    results = await ask_for_partitions(request.group_id, request.topics, ask, _result)
    return WriteShareGroupStateResponse(
        results=tuple(WriteStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _result(index: int, answer: KafkaError | None) -> WrittenPartitionResult:
    return WrittenPartitionResult(**error_fields(index, answer))


def _wanted(partition: Any) -> ShareWrite:
    batches = tuple(
        WrittenStateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in partition.state_batches
    )
    return ShareWrite(
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        batches,
        partition.delivery_complete_count,
    )
