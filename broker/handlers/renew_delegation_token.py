"""RenewDelegationToken 1-2 (KIP-48), decided by `controller.delegation_tokens`."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest, RenewDelegationTokenResponse

from broker.handlers.delegation_tokens import require_token_client, require_tokens
from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.delegation_tokens import decide_renew
from protocol.durations import MILLISECOND, ZERO


async def _renew_delegation_token(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    require_token_client(ctx)
    controller = ctx.controller
    tokens, now_ms = require_tokens(ctx), ctx.local.clock.wall_ms()
    token_id = ctx.local.tokens.id_of(request.hmac)
    client, period_ms = str(ctx.connection.principal), request.renew_period // MILLISECOND
    return await controller.submit(
        lambda image: decide_renew(image, token_id, client, period_ms, tokens, now_ms).map(_response)
    )


def _response(expires_ms: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp=expires_ms, throttle_time=ZERO)


renew_delegation_token = Handler(_renew_delegation_token, first=require_token_client)
