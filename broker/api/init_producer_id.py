"""InitProducerId 0-5 (KIP-98, KIP-360, KIP-588), for idempotent and for transactional producers.

Deviation: Kafka answers COORDINATOR_LOAD_IN_PROGRESS while it fetches its first block of ids; here the answer waits for
it, unless that takes long: then the client may ask a broker that has ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5 import InitProducerIdRequest, InitProducerIdResponse

from broker.network.answers import when_done
from broker.request_context import RequestContext
from coordinator.runtime.outcome import ProducerEpoch
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import CoordinatorLoadInProgress, InvalidRequest, KafkaError

NONE = -1
PATIENCE_MS = 5_000
"""How long a block of ids may take; the controller may be gone for a minute."""
Answer = InitProducerIdResponse


def init_producer_id(ctx: RequestContext, request: InitProducerIdRequest) -> Answer | Awaitable[Answer]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise InvalidRequest
    if request.transactional_id == "":
        raise InvalidRequest
    ids = ctx.coordinators.producer_ids
    return _answer(ctx, request) if ids.is_ready else _when_ids_are_ready(ctx, request)


async def _when_ids_are_ready(ctx: RequestContext, request: InitProducerIdRequest) -> Answer:
    ready = asyncio.ensure_future(ctx.coordinators.producer_ids.ready())
    pause = asyncio.ensure_future(ctx.local.clock.machine.sleep(PATIENCE_MS))
    await asyncio.wait((ready, pause), return_when=asyncio.FIRST_COMPLETED)
    pause.cancel()
    if not ready.done():
        ready.cancel()
        raise CoordinatorLoadInProgress
    ready.result()
    answer = _answer(ctx, request)
    return answer if isinstance(answer, InitProducerIdResponse) else await answer


def _answer(ctx: RequestContext, request: InitProducerIdRequest) -> Answer | Awaitable[Answer]:
    transactional_id = request.transactional_id
    if transactional_id is None:
        return _response(ProducerEpoch(ctx.coordinators.producer_ids.take(), 0))
    expected = None if request.producer_id == NONE else ProducerEpoch(request.producer_id, request.producer_epoch)
    timeout_ms = request.transaction_timeout // MILLISECOND
    client = f"{ctx.client_id} at {ctx.connection.client_host}"
    answer = ctx.coordinators.transactions.write(
        transactional_id, lambda state: state.init_producer_id(transactional_id, timeout_ms, expected, client)
    )
    return when_done(answer, _response)


def _response(producer: ProducerEpoch | KafkaError) -> Answer:
    if isinstance(producer, KafkaError):
        raise producer
    return InitProducerIdResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
