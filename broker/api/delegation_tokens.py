"""Delegation tokens: Create 1-3, Renew 1-2, Expire 1-2, Describe 1-3 (KIP-48, KIP-373).

`controller.delegation_tokens` decides on changes. A token is shown to its owner, its requester and its renewers, and to
who may describe it or its owner's tokens (Kafka's `DelegationTokenManager.filterToken`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kio.schema.create_delegation_token.v3 import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kio.schema.describe_delegation_token.v3 import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from kio.schema.describe_delegation_token.v3.response import DescribedDelegationToken, DescribedDelegationTokenRenewer
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2 import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest, RenewDelegationTokenResponse

from broker.config.listeners import protocol_map
from broker.network.ports import Handler
from broker.network.request import ANONYMOUS, Principal
from broker.request_context import RequestContext
from broker.security.delegation_tokens import token_settings
from controller.delegation_tokens import NewToken, TokenSettings, decide_create, decide_expire, decide_renew, secret_of
from metadata.acls import AclOperation, ResourceType
from protocol import uuids
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import (
    DelegationTokenAuthorization,
    DelegationTokenDisabled,
    InvalidRequest,
    KafkaError,
    UnsupportedByAuthentication,
)
from protocol.metadata.credentials import DelegationTokenRecord


def require_token_client(ctx: RequestContext) -> None:
    """Raises UnsupportedByAuthentication for a client that has not authenticated, or has done so with a token.

    Of a request that a broker has sent on, only the second is checked here: the broker has checked the first.
    """
    connection = ctx.connection
    if connection.principal.token_authenticated:
        raise UnsupportedByAuthentication
    if connection.is_forwarded:
        return
    protocol = protocol_map(ctx.local.config).get(connection.listener_name)
    if protocol in ("PLAINTEXT", None) or (protocol == "SSL" and connection.principal == ANONYMOUS):
        raise UnsupportedByAuthentication


def require_tokens(ctx: RequestContext) -> TokenSettings:
    """The settings of tokens. Raises DelegationTokenDisabled without a key."""
    settings = token_settings(ctx.local.config)
    if settings is None:
        raise DelegationTokenDisabled
    return settings


def principal_of(text: str) -> Principal:
    """The principal that a record has as a text."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


NO_TIME = -1
"""The time in an answer of the broker that was asked; a controller that refuses a request tells 0."""


async def _create_delegation_token(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    if request.owner_principal_name and request.owner_principal_type is None:
        raise InvalidRequest("The owner has a name and no type.")
    require_token_client(ctx)
    controller = ctx.controller
    owner, requester = str(_owner(ctx, request)), str(ctx.connection.principal)
    if owner != requester and not ctx.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        raise DelegationTokenAuthorization
    wanted = NewToken(
        uuids.to_text(controller.around.new_id()),
        owner,
        requester,
        [f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        request.max_lifetime // MILLISECOND,
    )
    tokens, now_ms = require_tokens(ctx), ctx.local.clock.wall_ms()
    return await controller.submit(
        lambda image: decide_create(image, wanted, tokens, now_ms).map(
            lambda made: _created_token_response(made, tokens)
        )
    )


def _owner(ctx: RequestContext, request: CreateDelegationTokenRequest) -> Principal:
    """Whose token it will be: the client's own, unless another owner is named."""
    if not request.owner_principal_name or request.owner_principal_type is None:
        return ctx.connection.principal
    return Principal(request.owner_principal_type, request.owner_principal_name)


def _token_fields(token: DelegationTokenRecord, tokens: TokenSettings) -> dict[str, Any]:
    """What answers say of a token alike."""
    return {
        **_principal_fields(principal_of(token.owner), principal_of(token.requester)),
        "issue_timestamp": token.issue_timestamp,
        "expiry_timestamp": token.expiration_timestamp,
        "max_timestamp": token.max_timestamp,
        "token_id": token.token_id,
        "hmac": secret_of(tokens.key, token.token_id),
    }


def _principal_fields(owner: Principal, requester: Principal) -> dict[str, Any]:
    return {
        "principal_type": owner.type,
        "principal_name": owner.name,
        "token_requester_principal_type": requester.type,
        "token_requester_principal_name": requester.name,
    }


def _created_token_response(token: DelegationTokenRecord, tokens: TokenSettings) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.none,
        **_token_fields(token, tokens),
        throttle_time=ZERO,
    )


def _failed_as_a_whole(
    ctx: RequestContext, request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    no_time = 0 if isinstance(error, DelegationTokenDisabled) else NO_TIME
    return CreateDelegationTokenResponse(
        error_code=error.code,
        **_principal_fields(_owner(ctx, request), ctx.connection.principal),
        issue_timestamp=no_time,
        expiry_timestamp=no_time,
        max_timestamp=no_time,
        token_id="",
        hmac=b"",
        throttle_time=ZERO,
    )


create_delegation_token = Handler(_create_delegation_token, failed=_failed_as_a_whole, first=require_token_client)


async def _renew_delegation_token(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    require_token_client(ctx)
    controller = ctx.controller
    tokens, now_ms = require_tokens(ctx), ctx.local.clock.wall_ms()
    token_id = ctx.local.tokens.id_of(request.hmac)
    client, period_ms = str(ctx.connection.principal), request.renew_period // MILLISECOND
    return await controller.submit(
        lambda image: decide_renew(image, token_id, client, period_ms, tokens, now_ms).map(_renewed_token_response)
    )


def _renewed_token_response(expires_ms: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp=expires_ms, throttle_time=ZERO)


def _no_time(error: KafkaError) -> int:
    return NO_TIME if isinstance(error, UnsupportedByAuthentication) else 0


renew_delegation_token = Handler(
    _renew_delegation_token,
    failed=lambda _ctx, _request, error: RenewDelegationTokenResponse(
        error_code=error.code, expiry_timestamp=_no_time(error), throttle_time=ZERO
    ),
    first=require_token_client,
)


async def _expire_delegation_token(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    require_token_client(ctx)
    controller = ctx.controller
    require_tokens(ctx)
    token_id, now_ms = ctx.local.tokens.id_of(request.hmac), ctx.local.clock.wall_ms()
    client, period_ms = str(ctx.connection.principal), request.expiry_time_period // MILLISECOND
    return await controller.submit(
        lambda image: decide_expire(image, token_id, client, period_ms, now_ms).map(_expired_token_response)
    )


def _expired_token_response(expires_ms: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=ErrorCode.none, expiry_timestamp=expires_ms, throttle_time=ZERO)


expire_delegation_token = Handler(
    _expire_delegation_token,
    failed=lambda _ctx, _request, error: ExpireDelegationTokenResponse(
        error_code=error.code, expiry_timestamp=_no_time(error), throttle_time=ZERO
    ),
    first=require_token_client,
)


IN_A_TURN = 500
"""Tokens that are looked at before the loop serves others."""


async def describe_delegation_token(
    ctx: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    require_token_client(ctx)
    tokens = require_tokens(ctx)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    shown: list[DelegationTokenRecord] = []
    for number, token in enumerate(ctx.image.tokens.values(), 1):
        if _is_shown(ctx, token, owners):
            shown.append(token)
        if number % IN_A_TURN == 0:
            await ctx.turn()
    shown.sort(key=lambda token: (token.issue_timestamp, token.token_id))
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.none,
        tokens=tuple(_described(token, tokens) for token in shown),
        throttle_time=ZERO,
    )


def _is_shown(ctx: RequestContext, token: DelegationTokenRecord, owners: Collection[str] | None) -> bool:
    own = {token.owner, token.requester, *token.renewers}
    if owners is not None and own.isdisjoint(owners):
        return False
    return (
        str(ctx.connection.principal) in own
        or ctx.allows(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, log_denied=False)
        or ctx.allows(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, log_denied=False)
    )


def _described(token: DelegationTokenRecord, tokens: TokenSettings) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        **_token_fields(token, tokens),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in map(principal_of, token.renewers)
        ),
    )
