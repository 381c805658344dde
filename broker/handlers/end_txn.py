"""EndTxn 0-5 (KIP-98, KIP-890; Kafka's `KafkaApis.handleEndTxnRequest`).

Answered once the decision is committed; the partitions' markers follow. From version 5 on the answer contains the
producer id and the bumped epoch of the next transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.end_txn.v5 import EndTxnRequest, EndTxnResponse
from kio.schema.errors import ErrorCode

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.transaction_metadata import TV_0, TV_2
from protocol.durations import ZERO
from protocol.entities import maker
from protocol.errors import InvalidRequest

FIRST_VERSION_OF_TRANSACTIONS_V2 = 5

new_response = maker(EndTxnResponse)


def end_txn(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    if not request.transactional_id:
        raise InvalidRequest
    client_version = TV_2 if ctx.version >= FIRST_VERSION_OF_TRANSACTIONS_V2 else TV_0
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    answer = ctx.coordinators.transactions.write(
        request.transactional_id,
        lambda state: state.end_transaction(request.transactional_id, producer, request.committed, client_version),
    )
    return when_done(answer, _response)


def _response(producer: ProducerEpoch) -> EndTxnResponse:
    return new_response(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
