"""ExpireDelegationToken 1-2 (KIP-48), decided by `controller.delegation_tokens`."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2 import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

from broker.handlers.delegation_tokens import require_token_client, require_tokens
from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.delegation_tokens import decide_expire
from protocol.durations import MILLISECOND, ZERO


async def _expire_delegation_token(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    require_token_client(ctx)
    controller = ctx.controller
    require_tokens(ctx)
    token_id, now_ms = ctx.local.tokens.id_of(request.hmac), ctx.local.clock.wall_ms()
    client, period_ms = str(ctx.connection.principal), request.expiry_time_period // MILLISECOND
    return await controller.submit(
        lambda image: decide_expire(image, token_id, client, period_ms, now_ms).map(_response)
    )


def _response(expires_ms: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp=expires_ms, throttle_time=ZERO)


expire_delegation_token = Handler(_expire_delegation_token, first=require_token_client)
