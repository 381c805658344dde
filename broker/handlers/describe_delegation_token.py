"""DescribeDelegationToken 1-3 (KIP-48, KIP-373; Kafka's `DelegationTokenManager.filterToken`).

A token is shown to its owner, its requester and its renewers, and to who may describe it or its owner's tokens.
"""

from __future__ import annotations

from collections.abc import Collection

from kio.schema.describe_delegation_token.v3 import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from kio.schema.describe_delegation_token.v3.response import DescribedDelegationToken, DescribedDelegationTokenRenewer
from kio.schema.errors import ErrorCode

from broker.handlers.delegation_tokens import principal_of, require_token_client, require_tokens
from broker.request_context import RequestContext
from controller.delegation_tokens import TokenSettings, secret_of
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.metadata.credentials import DelegationTokenRecord

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
    owner, requester = principal_of(token.owner), principal_of(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret_of(tokens.key, token.token_id),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in map(principal_of, token.renewers)
        ),
    )
