"""CreateDelegationToken 1-3 (KIP-48, KIP-373), decided by `controller.delegation_tokens`."""

from __future__ import annotations

from kio.schema.create_delegation_token.v3 import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kio.schema.errors import ErrorCode

from broker.handlers.delegation_tokens import principal_of, require_token_client, require_tokens
from broker.network.handler import Handler
from broker.network.principal import Principal
from broker.request_context import RequestContext
from controller.delegation_tokens import NewToken, TokenSettings, decide_create, secret_of
from metadata.acls import AclOperation, ResourceType
from protocol import uuids
from protocol.durations import MILLISECOND, ZERO
from protocol.errors import DelegationTokenAuthorization, KafkaError, UnknownServerError
from protocol.metadata.credentials import DelegationTokenRecord

NO_TIME = -1


async def _create_delegation_token(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    if request.owner_principal_name and request.owner_principal_type is None:
        raise UnknownServerError  # as in Kafka
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
        lambda image: decide_create(image, wanted, tokens, now_ms).map(lambda made: _response(made, tokens))
    )


def _owner(ctx: RequestContext, request: CreateDelegationTokenRequest) -> Principal:
    """Whose token it will be: the client's own, unless another owner is named."""
    if not request.owner_principal_name or request.owner_principal_type is None:
        return ctx.connection.principal
    return Principal(request.owner_principal_type, request.owner_principal_name)


def _response(token: DelegationTokenRecord, tokens: TokenSettings) -> CreateDelegationTokenResponse:
    owner, requester = principal_of(token.owner), principal_of(token.requester)
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.none,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret_of(tokens.key, token.token_id),
        throttle_time=ZERO,
    )


def _failed_as_a_whole(
    ctx: RequestContext, request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    owner, requester = _owner(ctx, request), ctx.connection.principal
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
        throttle_time=ZERO,
    )


create_delegation_token = Handler(_create_delegation_token, failed=_failed_as_a_whole, first=require_token_client)
