"""ReadShareGroupStateSummary 0-1 (KIP-932; Kafka's `ShareCoordinatorService.readStateSummary`)."""

from __future__ import annotations

from typing import Any

from kio.schema.read_share_group_state_summary.v1 import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kio.schema.read_share_group_state_summary.v1.response import PartitionResult as SummaryPartitionResult
from kio.schema.read_share_group_state_summary.v1.response import ReadStateSummaryResult

from broker.request_context import RequestContext
from broker.share.state_requests import ask_for_partitions, error_fields
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue
from protocol.errors import KafkaError

NOTHING = ShareSnapshotValue(0, 0, 0, -1, 0, 0, ())
FAILED = NOTHING._replace(start_offset=0)


async def read_share_group_state_summary(
    ctx: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    states = ctx.local.share.states

    def ask(key: SharePartitionKey, partition: Any) -> Any:
        return states.summary(key)

    results = await ask_for_partitions(request.group_id, request.topics, ask, _result)
    return ReadShareGroupStateSummaryResponse(
        results=tuple(
            ReadStateSummaryResult(topic_id=topic_id, partitions=found) for topic_id, found in results.items()
        )
    )


def _result(index: int, answer: ShareSnapshotValue | KafkaError | None) -> SummaryPartitionResult:
    known = FAILED if isinstance(answer, KafkaError) else answer or NOTHING
    return SummaryPartitionResult(
        **error_fields(index, answer),
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start_offset,
        delivery_complete_count=known.complete_count,
    )
