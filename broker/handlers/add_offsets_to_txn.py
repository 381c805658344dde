"""AddOffsetsToTxn 0-4 (KIP-98): adds a group's partition of `__consumer_offsets` to a transaction."""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.transaction_metadata import TV_0
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME
from protocol.durations import ZERO
from protocol.entities import maker
from protocol.errors import InvalidRequest

Answer = AddOffsetsToTxnResponse

new_response = maker(AddOffsetsToTxnResponse)


def add_offsets_to_txn(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> Answer | Awaitable[Answer]:
    if not request.transactional_id:
        raise InvalidRequest
    partition = (GROUP_METADATA_TOPIC_NAME, ctx.coordinators.groups.partition_for(request.group_id))
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    answer = ctx.coordinators.transactions.write(
        request.transactional_id,
        lambda state: state.add_partitions(request.transactional_id, producer, (partition,), TV_0),
    )
    return when_done(answer, lambda _: new_response(throttle_time=ZERO, error_code=ErrorCode.none))
