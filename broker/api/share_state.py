"""The states of share groups' partitions, for the brokers that lead them (KIP-932; Kafka's `ShareCoordinatorService`).

InitializeShareGroupState 0, ReadShareGroupState 0, ReadShareGroupStateSummary 0-1, WriteShareGroupState 0-1,
DeleteShareGroupState 0.
"""

from __future__ import annotations

from typing import Any

from kio.schema.delete_share_group_state.v0 import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kio.schema.delete_share_group_state.v0.response import DeleteStateResult
from kio.schema.delete_share_group_state.v0.response import PartitionResult as DeletedPartitionResult
from kio.schema.initialize_share_group_state.v0 import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kio.schema.initialize_share_group_state.v0.response import InitializeStateResult
from kio.schema.initialize_share_group_state.v0.response import PartitionResult as InitializedPartitionResult
from kio.schema.read_share_group_state.v0 import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from kio.schema.read_share_group_state.v0.response import PartitionResult as ReadPartitionResult
from kio.schema.read_share_group_state.v0.response import ReadStateResult
from kio.schema.read_share_group_state.v0.response import StateBatch as ReadStateBatch
from kio.schema.read_share_group_state_summary.v1 import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kio.schema.read_share_group_state_summary.v1.response import PartitionResult as SummaryPartitionResult
from kio.schema.read_share_group_state_summary.v1.response import ReadStateSummaryResult
from kio.schema.write_share_group_state.v1 import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from kio.schema.write_share_group_state.v1.response import PartitionResult as WrittenPartitionResult
from kio.schema.write_share_group_state.v1.response import WriteStateResult

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from protocol.coordinator_records.share_records import StateBatch as WrittenStateBatch
from protocol.errors import KafkaError


async def initialize_share_group_state(
    ctx: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.initialize_at(key, partition.state_epoch, partition.start_offset)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _initialized_result, allows_empty=True)
    return InitializeShareGroupStateResponse(
        results=tuple(InitializeStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _initialized_result(index: int, answer: KafkaError | None) -> InitializedPartitionResult:
    return InitializedPartitionResult(**error_fields(index, answer))


async def read_share_group_state(
    ctx: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.read(key, partition.leader_epoch)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _read_result)
    return ReadShareGroupStateResponse(
        results=tuple(ReadStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _read_result(index: int, answer: ShareSnapshotValue | KafkaError) -> ReadPartitionResult:
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


NOTHING = ShareSnapshotValue(0, 0, 0, -1, 0, 0, ())
FAILED = NOTHING._replace(start_offset=0)


async def read_share_group_state_summary(
    ctx: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.summary(key)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _summary_result)
    return ReadShareGroupStateSummaryResponse(
        results=tuple(
            ReadStateSummaryResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items()
        )
    )


def _summary_result(index: int, answer: ShareSnapshotValue | KafkaError | None) -> SummaryPartitionResult:
    known = FAILED if isinstance(answer, KafkaError) else answer or NOTHING
    return SummaryPartitionResult(
        **error_fields(index, answer),
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start_offset,
        delivery_complete_count=known.complete_count,
    )


async def write_share_group_state(
    ctx: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.write(key, _wanted(partition))

    results = await ask_for_partitions(request.group_id, request.topics, ask, _written_result)
    return WriteShareGroupStateResponse(
        results=tuple(WriteStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _written_result(index: int, answer: KafkaError | None) -> WrittenPartitionResult:
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


async def delete_share_group_state(
    ctx: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.forget(key)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _deleted_result)
    return DeleteShareGroupStateResponse(
        results=tuple(DeleteStateResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items())
    )


def _deleted_result(index: int, answer: KafkaError | None) -> DeletedPartitionResult:
    return DeletedPartitionResult(**error_fields(index, answer))
